"""Forged bundles: `verify` finds each kind, or says that only the signature can show it."""

from __future__ import annotations

import json
import random
import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proctor.bundles.keys import get_signing_key
from proctor.bundles.trust_store import TrustedKey, load_trusted_keys
from proctor.codec import assertion_digest
from proctor.errors import BundleError, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Assertion, Run, Score, Selection, Settings, Verdict
from proctor.proof import check_records, merkle
from proctor.proof.canonical import canonical_json
from proctor.proof.check_statement import BundleDefect
from proctor.proof.statement import FILES
from proctor.services.bundles.attest import attest
from proctor.services.bundles.countersign import countersign
from proctor.services.bundles.recorded_judgments import check_outcome
from proctor.services.bundles.verify import VerifiedBundle, verify
from proctor.stores.sqlite.store import SqliteStore
from proctor.verdicts import Counts
from support.builders import make_counts
from support.forging import TESTS, Forger, passing
from support.sessions import MakeRuns, WriteSuite

Attested = Callable[..., Path]


@pytest.fixture
def bundle(run: Run, attested: Attested) -> Path:
    """A full bundle without a signature."""
    return attested(run, "bundle")


@pytest.fixture
def forger(bundle: Path) -> Forger:
    """A forger of that bundle."""
    return Forger(bundle)


@pytest.fixture
def signed(run: Run, attested: Attested, folder: Path) -> Path:
    """The same bundle, signed by its maker."""
    return attested(run, "signed", key=get_signing_key(folder / "maker", None))


@pytest.fixture
def public(run: Run, attested: Attested, folder: Path) -> Path:
    """A public bundle of that run, signed by its maker."""
    return attested(run, "public", public=True, key=get_signing_key(folder / "maker", None))


@pytest.fixture
def trusted_keys(signed: Path, folder: Path) -> dict[str, TrustedKey]:
    """The keys that the reader trusts: the maker's."""
    return load_trusted_keys(folder / "maker")


@pytest.fixture
def public_forger(public: Path) -> Forger:
    """A forger of the public bundle, which has no signature any more."""
    forger = Forger(public)
    forger.envelope["signatures"] = []
    return forger


def check_refusal(path: Path, words: str, trusted_keys: dict[str, TrustedKey] | None = None) -> None:
    """Checks that `verify` refuses the bundle in one line with these words."""
    with pytest.raises(BundleError) as caught:
        verify(path, trusted_keys or {})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# --- valid bundles -----------------------------------------------------------------------------------------


def test_a_bundle_that_nobody_touched_holds(
    bundle: Path, signed: Path, public: Path, trusted_keys: dict[str, TrustedKey]
) -> None:
    assert verify(bundle, trusted_keys).standing == "unsigned"
    assert verify(signed, trusted_keys).standing == "trusted"
    assert verify(signed, {}).standing == "unknown"
    public_bundle = verify(public, trusted_keys)
    assert (public_bundle.hidden, public_bundle.graded_again) == (2, 8)
    assert any("rests on the signature alone" in line for line in public_bundle.unverified)


def test_taking_a_bundle_apart_and_together_changes_nothing(
    bundle: Path, trusted_keys: dict[str, TrustedKey]
) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    forger = Forger(bundle)
    forger.recount()
    forger.write()
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_a_changed_answer_is_found_by_its_hash(forger: Forger) -> None:
    forger.trial("t0")["trial"]["output"]["text"] = "no"
    check_refusal(forger.write(rehash=False), "trials.jsonl: the SHA-256 is")


@pytest.mark.parametrize(
    ("fields", "is_error"),
    [
        ({"required": 1.0}, False),
        ({"required": None}, True),
        ({"required": 0.5}, True),
        ({"required": 1.0, "outcome": Verdict.PASS}, False),
        ({"required": 1.0, "outcome": Verdict.PASS, "value": 0.7}, True),
    ],
)
def test_a_fail_above_the_bar_is_believed_only_below_a_gate(fields: dict[str, Any], is_error: bool) -> None:
    items = [{"id": "a", "outcome": "A", "required": True}, {"id": "b", "outcome": "B", "weight": 9}]
    assertion = Assertion(grader="rubrics", params={"items": items}, pass_at=0.8)
    score = Score(**{"grader": "rubrics", "name": "rubrics", "outcome": Verdict.FAIL, "value": 0.9, **fields})
    grader = build_grader(assertion, GRADERS.get)
    if not is_error:
        check_outcome("here", assertion, grader, score)
        return
    with pytest.raises(BundleDefect, match="here is"):
        check_outcome("here", assertion, grader, score)


# --- signatures --------------------------------------------------------------------------------------------


@pytest.fixture
def other(run: Run, store: SqliteStore, folder: Path) -> Any:
    """The key of a stranger, which the reader does not trust."""
    return get_signing_key(folder / "forger", None)


def test_the_signature_of_another_bundle_is_found(
    signed: Path, public: Path, trusted_keys: dict[str, TrustedKey]
) -> None:
    forger = Forger(signed)
    forger.envelope["signatures"] = Forger(public).envelope["signatures"]
    check_refusal(forger.restate(), "is not valid", trusted_keys)


def test_a_foreign_key_id_is_found(signed: Path, trusted_keys: dict[str, TrustedKey], other: Any) -> None:
    forger = Forger(signed)
    forger.write(sign=other)
    forger.envelope["signatures"][0]["keyid"] = next(iter(trusted_keys))
    check_refusal(forger.restate(), "signature 1: the key's id is", trusted_keys)


def test_a_foreign_key_under_a_signature_is_found(
    signed: Path, trusted_keys: dict[str, TrustedKey], other: Any
) -> None:
    forger = Forger(signed)
    forger.envelope["signatures"][0] |= {"keyid": other.id, "publicKey": other.public_pem}
    check_refusal(forger.restate(), "is not valid", trusted_keys)


def test_a_key_that_is_none_and_one_written_otherwise_are_found(
    signed: Path, trusted_keys: dict[str, TrustedKey]
) -> None:
    forger = Forger(signed)
    signature = forger.envelope["signatures"][0]
    pem = signature["publicKey"]
    for wrong, words in (("", "is not valid"), (f"hello\n{pem}", "the key is")):
        signature["publicKey"] = wrong
        check_refusal(forger.restate(), words, trusted_keys)


def test_a_signature_twice_is_found(signed: Path, trusted_keys: dict[str, TrustedKey]) -> None:
    forger = Forger(signed)
    forger.envelope["signatures"] *= 2
    check_refusal(forger.restate(), "signed twice", trusted_keys)


def test_signatures_in_another_order_are_found(
    signed: Path, trusted_keys: dict[str, TrustedKey], other: Any
) -> None:
    countersign(signed, other, trusted_keys)
    forger = Forger(signed)
    bundle = verify(signed, trusted_keys)
    assert (bundle.standing, sorted(str(signature.name) for signature in bundle.signatures)) == (
        "trusted",
        ["None", "yours: default"],
    )
    forger.envelope["signatures"].reverse()
    check_refusal(forger.restate(), "the signatures are not sorted by key", trusted_keys)


def test_a_bundle_signed_again_by_its_forger_is_signed_by_an_unknown_key(
    signed: Path, trusted_keys: dict[str, TrustedKey], other: Any
) -> None:
    forger = Forger(signed)
    forger.own["looks"] = {"rate": 0, "reveal": 0}
    forger.environment["versions"]["proctor"] = "99"
    bundle = verify(forger.write(sign=other), trusted_keys)
    assert (bundle.standing, [signature.name for signature in bundle.signatures]) == ("unknown", [None])


async def test_a_bundle_made_anew_as_a_whole_is_told_from_the_true_one_by_its_signature_alone(
    make: MakeRuns, suite: WriteSuite, folder: Path, store: SqliteStore, run: Run, signed: Path,
    trusted_keys: dict[str, TrustedKey], other: Any
) -> None:  # fmt: skip
    answers = "\n".join(json.dumps({case_id: expected}) for case_id, _, expected in TESTS)
    (folder / "all.jsonl").write_text(answers, encoding="utf-8")
    (result,) = await make(suite(*TESTS), "scripted:all.jsonl")
    attest(store, result.run, folder / "made", public=False, key=None)
    forger, true = Forger(folder / "made"), Forger(signed)
    for name in ("id", "group", "started_at", "finished_at", "target"):
        forger.config[name] = true.config[name]
    for name in ("run", "group", "started_at", "finished_at", "target"):
        forger.own[name] = true.own[name]
    for line in forger.trials:
        line["trial"]["started_at"] = true.config["started_at"]
    bundle: VerifiedBundle = verify(forger.write(), trusted_keys)
    assert (bundle.statement.run, bundle.statement.claims["all"].passed) == (run.id, 10)
    assert bundle.standing == "unsigned"
    assert verify(forger.restate(sign=other), trusted_keys).standing == "unknown"
    forger.envelope["signatures"] = true.envelope["signatures"]
    check_refusal(forger.restate(), "is not valid", trusted_keys)


# --- public bundles ----------------------------------------------------------------------------------------


def test_a_claim_on_the_holdout_that_no_hidden_trials_can_have_is_found(public_forger: Forger) -> None:
    holdout = public_forger.own["claims"]["holdout"]
    before = dict(holdout)
    for change, words in (
        ({"passed": 9}, "numbers that are impossible for 2 trials"),
        ({"failed": -1}, "numbers that are impossible for 2 trials"),
        ({"cases": 0}, "`cases` of the claim on holdout is 0, but should be 2"),
        (
            {"passed": 0, "failed": 1, "total": 1, "cases": 1, "shapes": {"0/1/0": 1}},
            "`total` of the claim on holdout is 1, but should be 2",
        ),
        ({"pass_rate": 0.75}, "`pass_rate` of the claim on holdout is 0.75"),
        ({"passed": 2, "failed": 0}, "the `shapes` of a claim do not have the trials of the claim"),
        ({"shapes": {"1/1/0": 2, "0/1/0": -1}}, "which is impossible"),
        ({"shapes": {"x": 2}}, "which is impossible"),
        ({"passed": 2, "failed": 0, "shapes": {"1/1/0": 2}}, "`passed` of the claim on all"),
    ):
        public_forger.own["claims"]["holdout"] = {**before, **change}
        check_refusal(public_forger.restate(), words)
    del public_forger.own["claims"]["holdout"]
    public_forger.own["split"] = "all"
    check_refusal(public_forger.restate(), "there is no claim on the holdout")


async def test_more_held_out_cases_than_are_hidden_are_found(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path
) -> None:
    (result,) = await make(suite(*TESTS), settings=Settings(repeats=2))
    attest(store, result.run, folder / "public", public=True, key=None)
    forger = Forger(folder / "public")
    holdout = make_counts(passed=2, failed=2)  # of twice as many cases, for a narrower interval
    dev = Counts(**{name: forger.own["claims"]["dev"][name] for name in ("passed", "failed", "shapes")})
    forger.own["claims"] |= {"holdout": forger._claim(holdout), "all": forger._claim(holdout.plus(dev))}
    check_refusal(forger.restate(), "numbers that are impossible for 4 trials of 2 cases")


def test_a_forged_claim_on_a_hidden_holdout_rests_on_the_signature_alone(
    public: Path, trusted_keys: dict[str, TrustedKey]
) -> None:
    forger = Forger(public)
    claims = forger.own["claims"]
    assert claims["holdout"]["passed"] < 2
    dev, holdout = make_counts(claims["dev"]["passed"], claims["dev"]["failed"]), make_counts(passed=2)
    claims |= {"holdout": forger._claim(holdout), "all": forger._claim(holdout.plus(dev))}
    check_refusal(forger.restate(), "is not valid", trusted_keys)
    forger.envelope["signatures"] = []
    bundle = verify(forger.restate(), trusted_keys)
    assert bundle.standing == "unsigned"
    assert any("(2 of 2 passed) rests on the word of its author alone" in line for line in bundle.unverified)


def redact_line(forger: Forger, line: Any) -> dict[str, Any]:
    return {"index": line["index"], "leaf": merkle.leaf_hash(canonical_json(line)).hex()}


def test_a_failing_dev_trial_cannot_be_hidden(public_forger: Forger) -> None:
    failing = next(line for line in public_forger.trials if line.get("verdict") == "fail")
    place = failing["index"]
    public_forger.trials[place] = redact_line(public_forger, failing)
    with pytest.raises(BundleError):
        verify(public_forger.write(), {})
    public_forger.suite[place + 1] = redact_line(public_forger, public_forger.suite[place + 1])
    check_refusal(public_forger.write(), "suite.jsonl: the number of hidden cases is 3, but should be 2")


async def test_a_suite_that_is_another_one_while_answers_are_graded_is_found(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(selection=Selection(limit=2))
    (result,) = await make(suite(("t0", "say 0", "say X"), *TESTS[1:]), settings=settings)
    attest(store, result.run, folder / "public", public=True, key=None)
    forger = Forger(folder / "public")
    passing(forger.trial("t0"))
    easy = msgspec.convert(forger.suite[1]["case"]["assertions"][0], Assertion)
    easy.params["value"] = "say 0"
    forger.trial("t0")["trial"]["scores"][0]["assertion"] = assertion_digest(easy)
    forger.recount()
    check_refusal(forger.write(), "trials.jsonl:1: score 1 (exact): the digest of the assertion")
    finish = check_records.CaseChecker.finish

    def finish_after_change(cases: check_records.CaseChecker) -> Any:
        path = forger.path / "suite.jsonl"
        path.write_bytes(path.read_bytes().replace(b"say X", b"say 0"))
        return finish(cases)

    monkeypatch.setattr(check_records.CaseChecker, "finish", finish_after_change)
    check_refusal(forger.path, "suite.jsonl changed while it was read")


def test_a_hidden_trial_more_or_less_is_found(public_forger: Forger) -> None:
    place = next(line["index"] for line in public_forger.trials if "leaf" in line)
    removed_line = public_forger.trials.pop(place)
    for index, line in enumerate(public_forger.trials):
        line["index"] = index
    check_refusal(public_forger.write(), "the number of trials is 9, but should be 10")
    public_forger.trials[place:place] = [removed_line, {**removed_line}]
    for index, line in enumerate(public_forger.trials):
        line["index"] = index
    check_refusal(public_forger.write(), "the number of trials is 11, but should be 10")


# --- files and bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["manifest.json", "attestation.json", "Suite.jsonl", ".hidden", "trials.jsonl "]
)
def test_an_added_file_is_found(bundle: Path, name: str) -> None:
    (bundle / name).write_text("{}", encoding="utf-8")
    check_refusal(bundle, f"has {name!r}, which is not a file of a bundle")


def test_an_added_folder_is_found(bundle: Path) -> None:
    (bundle / "responses").mkdir()
    (bundle / "responses" / "manifest.json").write_text('{"passed": true}', encoding="utf-8")
    check_refusal(bundle, "has 'responses', which is not a file of a bundle")


@pytest.mark.parametrize("name", [*FILES, "envelope.json"])
def test_bytes_that_say_the_same_in_another_way_are_found(bundle: Path, name: str) -> None:
    path, forger = bundle / name, Forger(bundle)
    right = path.read_bytes()
    first = right[: right.index(b"\n")]
    doubled = right.replace(b'{"', b'{"index":0,"index":0,"', 1)
    variants = [
        right.replace(b":", b": ", 1),
        right.replace(b"\n", b"\r\n"),
        right.removesuffix(b"\n"),
        right + b"\n",
        b"\xef\xbb\xbf" + right,
        doubled,
        right.replace(b'{"', b'{"\\u0061', 1),
        right.decode("utf-8").encode("utf-16"),
        first.replace(b'{"', b'{"\xff', 1) + right[len(first) :],
        b"",
    ]
    for variant in variants:
        path.write_bytes(variant)
        if name != "envelope.json":
            forger.restate()
        with pytest.raises(BundleError):
            verify(bundle, {})


HOSTILE_LINES: dict[str, bytes] = {
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * 900 + b"]" * 900,
    "deep in the answer": b'{"index":0,"leaf":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    "nan": b'{"index":NaN,"leaf":"00"}',
    "infinite": b'{"index":1e999,"leaf":"00"}',
    "huge": b'{"index":' + b"9" * 5000 + b',"leaf":"00"}',
    "a number that is none": b'{"index":{"$number":"nan"},"leaf":"00"}',
    "a number in many digits": b'{"index":{"$number":"' + b"9" * 5000 + b'"},"leaf":"00"}',
    "half a character": b'{"index":0,"leaf":"\\ud800"}',
    "no object": b"[]",
    "null": b"null",
    "text": b'"text"',
    "no JSON": b"hello",
    "a leaf that is none": b'{"index":0,"leaf":"zz"}',
    "null character": b"\x00",
}


@pytest.mark.parametrize("line", HOSTILE_LINES.values(), ids=list(HOSTILE_LINES))
def test_hostile_lines_are_refused_in_one_sentence(bundle: Path, forger: Forger, line: bytes) -> None:
    for name in FILES:
        path = bundle / name
        before = path.read_bytes()
        lines = before.splitlines(keepends=True)
        for place in {0, len(lines) - 1}:
            path.write_bytes(b"".join([*lines[:place], line + b"\n", *lines[place + 1 :]]))
            check_refusal(forger.restate(), "")
        path.write_bytes(before)
    (bundle / "envelope.json").write_bytes(line + b"\n")
    check_refusal(bundle, "envelope.json")
    payload = {
        "payload": b64encode(line).decode(),
        "payloadType": forger.envelope["payloadType"],
        "signatures": [],
    }
    (bundle / "envelope.json").write_bytes(canonical_json(payload) + b"\n")
    check_refusal(bundle, "envelope.json: the statement is not valid")


def test_a_million_lines_are_refused_at_the_first(bundle: Path, forger: Forger) -> None:
    with (bundle / "trials.jsonl").open("ab") as file:
        file.write(b"{}\n" * 1_000_000)
    check_refusal(forger.restate(), "trials.jsonl:11 is not valid")


def mutate(data: bytes, random_source: random.Random) -> bytes:
    """Returns the bytes with a few of them flipped, removed, repeated or replaced by a JSON value."""
    place = random_source.randrange(len(data))
    kind = random_source.randrange(5)
    if kind == 0:
        return data[:place] + bytes([data[place] ^ 1 << random_source.randrange(8)]) + data[place + 1 :]
    if kind == 1:
        return data[:place] + data[place + random_source.randrange(1, 9) :]
    if kind == 2:
        return data[:place] + data[place : place + 5] + data[place:]
    if kind == 3:
        return data[:place] + bytes([random_source.randrange(256)]) + data[place:]
    values = (b"null", b"-1", b"[]", b"{}", b'""', b"true", b"0.5", b"99999999999999999999", b'"\\u0000"')
    end = data.find(b",", place)
    start = data.rfind(b":", 0, place) + 1
    return data[:start] + random_source.choice(values) + data[end:] if end > 0 else data


def verify_or_none(path: Path) -> VerifiedBundle | None:
    """Verifies a bundle; returns None if it is refused, and checks that the message is printable."""
    message = ""
    try:
        return verify(path, {})
    except BundleError as error:
        message = str(error)
    assert message.isprintable(), message
    return None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bundle", "public"])
def test_no_mutation_breaks_the_reader_or_moves_the_claim(
    kind: str, request: pytest.FixtureRequest, folder: Path
) -> None:
    source: Path = request.getfixturevalue(kind)
    random_source = random.Random(20260301)
    forger = Forger(source)
    forger.envelope["signatures"] = []
    forger.restate()
    right = verify(source, {}).statement.claims
    target = folder / "mutant"
    valid_count = 0
    for turn in range(120):
        shutil.copytree(source, target, dirs_exist_ok=True)
        name = random_source.choice([*FILES, "envelope.json", "payload"])
        mutant = Forger(target)
        if name == "payload":
            payload = mutate(canonical_json(mutant.statement), random_source)
            mutant.envelope["payload"] = b64encode(payload).decode()
            (target / "envelope.json").write_bytes(canonical_json(mutant.envelope) + b"\n")
        else:
            (target / name).write_bytes(mutate((target / name).read_bytes(), random_source))
            if name != "envelope.json":
                mutant.restate()
        bundle = verify_or_none(target)
        valid_count += bundle is not None
        assert bundle is None or bundle.statement.claims == right, turn
    assert valid_count < 120


def list_places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in plain data, as a container with a key or an index."""
    places: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        places += [(value, key), *list_places(inner)]
    return places


OTHER_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**40, 2**70, 0.5, -0.5, 1e-320, 1.5e300, 1.0),
    *("", "x", "\x1b[2J", "\u202e", "sha256:" + "0" * 64, "2026-01-01T00:00:00Z", "pass", "holdout"),
    *([], [[]], {}, {"$number": "1.0"}, {"a": 1}, {"leaf": "00" * 32}),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bundle", "public"])
def test_no_other_value_anywhere_breaks_the_reader_or_moves_the_claim(
    kind: str, request: pytest.FixtureRequest, folder: Path
) -> None:
    source: Path = request.getfixturevalue(kind)
    random_source = random.Random(20260302)
    right = verify(source, {}).statement.claims
    shutil.copytree(source, folder / "mutant")
    for turn in range(120):
        mutant = Forger(source)
        mutant.path = folder / "mutant"
        mutant.envelope["signatures"] = []
        part = random_source.choice(
            ("suite", "suite", "trials", "trials", "config", "environment", "statement")
        )
        container, key = random_source.choice(list_places(getattr(mutant, part)))
        if random_source.random() < 0.2:
            del container[key]
        else:
            container[key] = random_source.choice(OTHER_VALUES)
        try:
            mutant.write()
        except (LookupError, TypeError, AttributeError, ValueError, UsageError):
            continue  # the change breaks the forger itself
        bundle = verify_or_none(mutant.path)
        assert bundle is None or bundle.statement.claims == right, (turn, key)


def test_more_lines_than_any_bundle_has_are_not_read(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_records, "MAX_LINES", 9)
    check_refusal(bundle, "suite.jsonl has more than 9 lines")


def test_a_hidden_trial_where_no_hidden_case_is_is_found(public_forger: Forger) -> None:
    cases = [line["index"] for line in public_forger.suite[1:] if "leaf" in line]
    assert min(cases) > 1
    public_forger.trials.insert(0, public_forger.trials.pop(min(cases)))
    for index, line in enumerate(public_forger.trials):
        line["index"] = index
    check_refusal(
        public_forger.write(), "trials.jsonl:1 is hidden, but no trial of a holdout case can be at this place"
    )


def test_hidden_cases_of_a_suite_that_holds_none_out_are_found(public_forger: Forger) -> None:
    del public_forger.suite[0]["suite"]["split_rule"]
    check_refusal(public_forger.write(), "suite.jsonl: 2 cases are hidden, but the suite has no holdout")


async def test_other_hidden_cases_than_the_shuffle_holds_out_are_found(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path
) -> None:
    (result,) = await make(suite(*TESTS), split_method="shuffle")
    attest(store, result.run, folder / "public", public=True, key=None)
    attest(store, result.run, folder / "full", public=False, key=None)
    assert verify(folder / "public", {}).hidden == 2
    forger, full = Forger(folder / "public"), Forger(folder / "full")
    hidden_places = [line["index"] for line in forger.suite[1:] if "leaf" in line]
    other = next(index for index in range(10) if index not in hidden_places)
    for shown_lines, full_lines in ((forger.suite, full.suite), (forger.trials, full.trials)):
        skip = len(shown_lines) - 10
        shown_lines[hidden_places[0] + skip] = full_lines[hidden_places[0] + skip]
        shown_lines[other + skip] = redact_line(forger, full_lines[other + skip])
    check_refusal(forger.write(), "suite.jsonl: the list of hidden cases is")
