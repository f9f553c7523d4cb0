"""Forgeries in one or two places: each is found without a signature, or by the signature alone.

The rows of the table in docs/guides/verify-a-bundle.md come first, then forgeries that it does not name.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proctor.bundles.keys import get_signing_key
from proctor.bundles.trust_store import load_trusted_keys
from proctor.errors import BundleError
from proctor.model import Run, Settings, Verdict
from proctor.proof import merkle
from proctor.proof.canonical import canonical_json
from proctor.services.bundles.attest import attest
from proctor.services.bundles.verify import verify
from proctor.services.runs.execution import runner, writer
from proctor.verdicts import Counts
from support.forging import TESTS, Forger, passing
from support.sessions import MakeRuns, WriteSuite

if TYPE_CHECKING:
    from proctor.stores.sqlite.store import SqliteStore


Change = Callable[[Forger], object]
Edit = dict[str, Any] | Change | list[Any]
"""A change, several, or new values by their places: `t3.scores.0.value` is in the trial of case t3."""
PAGE = Path(__file__).parents[3] / "docs" / "guides/verify-a-bundle.md"
ABSENT = object()
"""Stands for a value that is removed."""


def apply(forger: Forger, edit: Edit) -> None:
    """Applies an edit to a bundle whose files are not written yet."""
    if callable(edit):
        edit(forger)
    elif isinstance(edit, list):
        for part in edit:
            apply(forger, part)
    else:
        put_values(forger, edit)


def put_values(forger: Forger, values: dict[str, Any]) -> None:
    for path, value in values.items():
        part, *keys, last = path.split(".")
        inner = forger.trial(part)["trial"] if re.fullmatch(r"t\d", part) else getattr(forger, part)
        for key in keys:
            inner = inner[int(key)] if isinstance(inner, list) else inner.setdefault(key, {})
        if value is ABSENT:
            del inner[last]
        else:
            inner[last] = value


def recount_after(edit: Edit) -> Change:
    """An edit after which claims and indexes are computed again from the lines."""

    def change(forger: Forger) -> None:
        apply(forger, edit)
        forger.recount()

    return change


def failed_by_endpoint(forger: Forger, kind: str = "http") -> None:
    line = forger.trial("t3")
    del line["trial"]["output"], line["trial"]["scores"]
    line["trial"]["failure"] = {"stage": "target", "kind": kind, "message": "m"}
    line["verdict"] = "error"
    counts: dict[str, Counts] = {name: Counts() for name in ("all", "dev", "holdout")}
    passed: list[str] = []
    failed: list[str] = []
    for other_line in forger.trials:
        verdict, split = other_line["verdict"], other_line["trial"]["split"]
        for name in ("all", split):
            counts[name].add(Verdict(verdict))
        if verdict != "error":
            (passed if verdict == "pass" else failed).append(other_line["trial"]["case_id"])
    forger.own["claims"] = {name: forger._claim(part) for name, part in counts.items()}
    forger.predicate.update(passedTests=passed, failedTests=failed)


def move_back(forger: Forger) -> None:
    """Sets every time of a run back to the year 2020."""

    def change_year(text: str) -> str:
        return "2020" + text[4:]

    for name in ("started_at", "finished_at"):
        forger.config[name] = forger.own[name] = change_year(forger.config[name])
    for line in forger.trials:
        line["trial"]["started_at"] = change_year(line["trial"]["started_at"])


def name_suite(name: str) -> dict[str, Any]:
    return {f"{place}.name": name for place in ("own.suite", "suite.0.suite", "predicate.configuration.0")}


def pass_all(forger: Forger) -> None:
    for line in forger.trials:
        line["verdict"] = "pass"
    apply(forger, {"config.settings.threshold": 0})


def swap(forger: Forger) -> None:
    forger.trials[1], forger.trials[3] = forger.trials[3], forger.trials[1]


def add_trial(forger: Forger) -> None:
    forger.trials.append({**json.loads(json.dumps(forger.trial("t1"))), "salt": "0" * 64})


def leave_out(case_id: str) -> Change:
    return recount_after(lambda forger: forger.trials.remove(forger.trial(case_id)))


def drop_last_case(forger: Forger) -> None:
    del forger.suite[-1]
    leave_out("t9")(forger)


def hide(part: str, place: int) -> Change:
    def change(forger: Forger) -> None:
        lines = getattr(forger, part)
        leaf = merkle.leaf_hash(canonical_json(lines[place])).hex()
        lines[place] = {"index": lines[place]["index"], "leaf": leaf}

    return change


NO_RUN, NO_TIME = "20200101-000000-abcdef", "2020-01-01T00:00:00Z"
FAILURE = {"stage": "target", "kind": "http", "message": "m"}
ROWS: dict[str, list[tuple[Edit, str]]] = {
    "an answer, score, verdict, claim or name of a passed test changed, all hashes recomputed": [
        (
            {"t1.output.text": "something else"},
            "trials.jsonl:2: score 1 (exact): the outcome is pass, and grading the answer again",
        ),
        (
            recount_after(lambda f: passing(f.trial("t3"))),
            "the outcome is pass, and grading the answer again gives fail",
        ),
        (
            recount_after(lambda f: f.trial("t3").update(verdict="pass")),
            "trials.jsonl:4: the verdict is pass, but should be fail",
        ),
        ({"own.claims.all.passed": 9}, "`passed` of the claim on all is 9, but should be 6"),
        (lambda f: f.predicate["passedTests"].append("t0"), "`passedTests` has t0"),
    ],
    "a failing trial removed, a passing trial added, lines swapped": [
        *(
            (leave_out(name), "config.json: the number of planned trials is 9, but should be 10")
            for name in ("t0", "t3", "t9")
        ),
        (recount_after(add_trial), "the number of planned trials is 11, but should be 10"),
        (swap, "trials.jsonl:2: the index is 3, but should be 1"),
        (recount_after(swap), "trials.jsonl:2: the trial of case t1 should be here"),
    ],
    "split, settings, target, run id or times changed in one place": [
        ({"own.split": "all"}, "the split is all, but should be holdout"),
        ({"config.settings.threshold": 0}, "the verdict is fail, but should be pass"),
        ({"config.target.model": "other"}, "the target's digest is"),
        ({"own.run": NO_RUN}, "the run's id is"),
        ({"own.started_at": NO_TIME}, "the time at which the run began is"),
    ],
    "a run that ends before it starts, or a trial outside the time of its run": [
        (
            {"config.finished_at": NO_TIME, "own.finished_at": NO_TIME},
            "config.json: the run ended at 2020",
        ),
        ({"t3.started_at": NO_TIME}, "trials.jsonl:4: the trial began at 2020-01-01"),
        ({"t3.started_at": "2999-01-01T00:00:00Z"}, "trials.jsonl:4: the trial began at 2999-01-01"),
    ],
    "a trial with an answer and a failure or neither, scores but no answer, a valid case marked invalid": [
        ({"t3.failure": FAILURE}, "trials.jsonl:4: a trial has either an answer or a failure"),
        (
            {"t3.output": ABSENT, "t3.scores": ABSENT},
            "trials.jsonl:4: a trial has either an answer or a failure",
        ),
        ({"t3.output": ABSENT}, "trials.jsonl:4: there are scores but no answer"),
        (
            lambda f: failed_by_endpoint(f, "invalid"),
            "the trial failed because of an invalid case, but the case is valid",
        ),
    ],
    "tokens, cost or latency below 0, or more than 10⁹ tokens": [
        (
            {"t3.output.usage": {"input_tokens": -5}},
            "a count of tokens is not from 0 to 1,000,000,000",
        ),
        (
            {"t3.output.usage": {"output_tokens": 10**9 + 1}},
            "a count of tokens is not from 0 to 1,000,000,000",
        ),
        ({"t3.output.cost_usd": -1}, "trials.jsonl:4: a cost is below 0"),
        ({"t3.output.latency_ms": -1}, "trials.jsonl:4: `latency_ms` is below 0"),
        ({"t3.output.queue_ms": -1}, "trials.jsonl:4: `queue_ms` is below 0"),
        ({"t3.output.duration_ms": -1}, "trials.jsonl:4: `duration_ms` is below 0"),
    ],
    "control characters in the name of a suite, target, case, tag or judge": [
        (name_suite("a\x1b[2Jb"), "has control characters: "),
        (name_suite("a\u202eb"), "has control characters: "),
        ({"own.target.name": "a\x07b", "config.target.name": "a\x07b"}, "has control characters: "),
        ({"suite.4.case.id": "t3\x1b[2J"}, "has control characters: "),
        ({"suite.4.case.tags": ["a\x00"]}, "has control characters: "),
        ({"suite.4.case.category": "a\x9b"}, "has control characters: "),
        ({"config.judges": [{"name": "a\x1bb", "kind": "echo"}]}, "has control characters: "),
    ],
    "the environment, holdout accesses, a salt, the run id or the times changed in all places at once": [
        ({"environment.versions.python": "9.9"}, ""),
        ({"own.looks": {"rate": 99, "reveal": 0}}, ""),
        ({"suite.1.salt": "ab" * 32}, ""),
        ({"config.id": NO_RUN, "own.run": NO_RUN}, ""),
        (move_back, ""),
    ],
    "threshold, selection or seed of the split changed in all places at once": [
        (recount_after(pass_all), "")
    ],
    (
        "tags or category of a case; reason, details and evidence of a score; "
        "model, finish reason, latency and cost within limits"
    ): [
        ({"suite.4.case.tags": ["easy"]}, ""),
        ({"suite.4.case.category": "easy"}, ""),
        ({"t3.scores.0.reason": "It is perfect."}, ""),
        ({"t3.scores.0.details": {"raw_score": 1}}, ""),
        ({"t3.scores.0.entries": [{"text": "x", "passed": True}]}, ""),
        (
            {"t3.output.model": "other", "t3.output.finish_reason": "stop", "t3.output.fingerprint": "other"},
            "",
        ),
        ({"t3.output.latency_ms": 1, "t3.output.cost_usd": 0}, ""),
    ],
    "answers of earlier runs used instead of new ones": [({"t3.source_run": NO_RUN}, "")],
    "a failed answer turned into an error of the endpoint": [(failed_by_endpoint, "")],
}
"""Edits with the words of the error without a signature; no words where only the signature shows them."""
ROWS_IN_OTHER_FILES = {
    "a file changed, added, removed, or replaced by a link": "test_an_added_file_is_found",
    "a duplicate key, an unknown field, or JSON in another form than the canonical one": (
        "test_bytes_that_say_the_same_in_another_way_are_found"
    ),
    "a judgment changed but not its reply; a judge's reply removed; another aggregation": (
        "test_judgments_that_were_outvoted_or_left_out_are_found"
    ),
    "a judgment changed together with its reply": "test_what_judges_said_is_recounted",
    "the claim on the hidden holdout of a public bundle changed": (
        "test_a_forged_claim_on_a_hidden_holdout_rests_on_the_signature_alone"
    ),
    "the whole bundle made by running a better target under this one's name": (
        "test_a_bundle_made_anew_as_a_whole_is_told_from_the_true_one_by_its_signature_alone"
    ),
    "signed again by the forger": ("test_a_bundle_signed_again_by_its_forger_is_signed_by_an_unknown_key"),
    "another bundle's signature, a foreign key ID, or a signature twice": "test_a_signature_twice_is_found",
}
"""Rows that need other bundles, each with its test in test_forgeries.py or test_service_verify.py."""
OTHER_EDITS: list[tuple[Edit, str]] = [
    # a score
    ({"t3.scores.0.value": 0.5}, "the value is 0.5, and grading the answer again gives 0.0"),
    ({"t3.scores.0.weight": 0}, "the weight is 0.0, but should be 1.0"),
    ({"t3.scores.0.required": 0.5}, "the gate is 0.5, and grading the answer again gives None"),
    ({"t3.scores.0.grader": "unscored"}, "the grader is unscored, but should be exact"),
    ({"t3.scores.0.name": "another"}, "the name is another, but should be exact"),
    ({"t3.scores.0.assertion": "sha256:0"}, "the digest of the assertion is sha256:0"),
    ({"t3.scores.0.outcome": "error"}, "the outcome is error"),
    ({"t3.scores.0.outcome": "unscored"}, "a score has a value or is unscored"),
    ({"t3.scores.0.value": 7}, "should be within 0 and 1"),
    ({"t3.scores.0.surprise": 1}, "canonical"),
    (
        lambda f: f.trial("t3")["trial"]["scores"].extend(f.trial("t4")["trial"]["scores"]),
        "of scores is 2, but",
    ),
    ({"t3.scores": ABSENT}, "the number of scores is 0, but should be 1"),
    # a trial
    ({"t3.case_id": "t4"}, "trials.jsonl:4: the case's id is t4, but should be t3"),
    ({"t3.sent": "sha256:0"}, "trials.jsonl:4: the digest of what was sent is sha256:0"),
    ({"t3.target": "echo"}, "trials.jsonl:4: the case's own target is echo, but should be None"),
    (hide("trials", 3), "trials.jsonl:4 is hidden, but nothing in a full bundle is hidden"),
    (
        [leave_out("t3"), {"config.settings.selection": {"ids": ["t[!4]"]}}],
        "trials.jsonl:4: the trial of case t3 should be here",
    ),
    (
        [recount_after(add_trial), {"config.planned": 10}],
        "envelope.json: the number of trials is 11, but should be 10",
    ),
    # the suite and its split
    ({"suite.4.case.assertions.0.params.value": "say 3"}, "suite.jsonl:1: the digest of the suite is"),
    ({"suite.4.case.input.0.content": "no"}, "suite.jsonl:5: the digest of what is sent is"),
    (lambda f: f.suite.insert(1, f.suite.pop(2)), "suite.jsonl:2: the index is 1, but should be 0"),
    (drop_last_case, "envelope.json: the number of cases is 9, but should be 10"),
    (
        [drop_last_case, {"suite.0.suite.case_count": 9}],
        "the digest of the suite is",
    ),
    (hide("suite", 3), "suite.jsonl:4 is hidden, but nothing in a full bundle is hidden"),
    (recount_after({"t1.split": "holdout"}), "the split is holdout, but should be dev"),
    (recount_after({"t4.split": ABSENT}), "the split is None, but should be dev"),
    ({"suite.0.suite.split_rule": {"seed": 7}}, ": the split is "),
    (
        {"suite.0.suite.split_rule": {"ratio": 7}},
        "the holdout share is 7.0, but must be between 0 and 1",
    ),
    (
        [
            recount_after(lambda f: passing(f.trial("t3"))),
            {"suite.4.case.variables": ["HOME"], "suite.4.case.metadata": {"x": "${{ HOME }}"}},
        ],
        "the outcome is pass, and grading the answer again gives fail",
    ),
    # settings
    ({"config.settings.min_pass_rate": 0.5}, "the result is FAILED, but should be PASSED"),
    ({"config.settings.repeats": 2}, "the number of planned trials is 10, but should be 20"),
    (
        {"config.settings.selection": {"split": "dev"}},
        "the number of planned trials is 10, but should be 8",
    ),
    (
        {"config.settings.selection": {"ids": [f"*{n}*" for n in range(10_001)]}},
        "config.json: the run selects cases by more than 10000 ids",
    ),
    # the record of the run
    ({"config.id": NO_RUN}, "the run's id is"),
    ({"config.group": NO_RUN}, "the run's group is"),
    ({"config.started_at": NO_TIME}, "the time at which the run began is"),
    ({"config.stopped": "x"}, "why the run was stopped is x, but should be None"),
    ({"config.status": "interrupted"}, "the run's status is interrupted, but should be finished"),
    ({"config.surprise": 1}, "config.json has a field that is unknown"),
    ({"config.seat": 1}, "config.json is not valid"),
    ({"config.suite": {}}, "config.json is not valid"),
    ({"environment.started_at": NO_TIME}, "the list of fields is"),
    ({"environment.versions": {"proctor": 1}}, "config.json is not valid"),
    # the statement
    ({"own.group": NO_RUN}, "the run's group is"),
    ({"own.suite.name": "hard", "predicate.configuration.0.name": "hard"}, "the suite's name is hard"),
    ({"own.suite.version": "v9"}, "the suite's version is v9"),
    (
        {"own.suite.digest": "sha256:0", "predicate.configuration.0.digest.proctorSuite": "0"},
        "the suite's digest is sha256:0",
    ),
    ({"own.target.name": "gpt-99"}, "the target's name is gpt-99"),
    ({"own.target.digest": "sha256:0"}, "the target's digest is sha256:0"),
    ({"own.finished_at": NO_TIME}, "the time at which the run ended is"),
    ({"own.kind": "public"}, "the number of hidden cases is 0, but should be 2"),
    ({"own.claims.all.ci95": [0.9, 1]}, "`ci95` of the claim on all is"),
    ({"own.claims.holdout.pass_rate": 1}, "`pass_rate` of the claim on holdout"),
    ({"own.claims.night": {}}, "the statement is not valid"),
    (
        {"own.claims.dev": ABSENT},
        "the list of claims is ['all', 'holdout'], but should be ['all', 'dev', 'holdout']",
    ),
    ({"own.looks.rate": -1}, "below 0"),
    ({"own.version": 3}, "its version is 3 instead of 2"),
    ({"own.version": 1}, "its claims do not match version 1"),
    ({"own.surprise": 1}, "the statement is not valid"),
    ({"predicate.result": "PASSED"}, "the result is PASSED, but should be FAILED"),
    (lambda f: f.predicate["failedTests"].pop(0), "`failedTests` lacks t0"),
    (lambda f: f.predicate["passedTests"].reverse(), "not in the order of the suite"),
    ({"predicate.url": "https://example.com"}, "the statement is not valid"),
    # salts
    *(
        ({"suite.2.salt": salt}, "suite.jsonl:3 is not valid: its salt is not 64 hexadecimal digits")
        for salt in ("", "AB" * 32, "ab" * 31, "ab " * 21 + "a")
    ),
    (
        lambda f: f.trials[2].update(salt=f.suite[5]["salt"]),
        "trials.jsonl:3: another line has the same salt",
    ),
]
EDITS_UNDER_OLD_ROOTS: list[tuple[Edit, str]] = [
    ({"own.cases.root": "00"}, "the Merkle root of the cases is 00"),
    ({"own.trials.root": "00"}, "the Merkle root of the trials is 00"),
    ({"own.trials.size": 3}, "the number of trials is 3, but should be 10"),
    ({"trials.2.salt": "ab" * 32}, "the Merkle root of the trials is"),
    (
        lambda f: f.trials.append({**f.trial("t1"), "index": 10, "salt": "0" * 64}),
        "trials.jsonl:11 is one trial more than the run has",
    ),
    (
        [lambda f: f.trials.pop(), lambda f: f.suite.append({**f.suite[1], "index": 10, "salt": "1" * 64})],
        "suite.jsonl:12: another case has the id t0",
    ),
]


def read_page_rows() -> dict[str, tuple[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| forged |") :].split("\n\n")[0].splitlines()[2:]
    cells = [re.split(r" \| ", line.strip("| ")) for line in table]
    return {row: (unsigned, signed) for row, unsigned, signed in cells}


@pytest.fixture
def bundles(run: Run, attested: Callable[..., Path], folder: Path) -> tuple[Path, Path]:
    """The same run as a bundle without a signature and as a signed one."""
    key = get_signing_key(folder / "maker", None)
    return attested(run, "unsigned"), attested(run, "signed", key=key)


def forge(path: Path, edit: Edit, *, reroot: bool = True) -> Path:
    forger = Forger(path)
    apply(forger, edit)
    return forger.write(reroot=reroot)


def check_refusal(path: Path, words: str) -> None:
    """Checks that `verify` refuses the bundle in one line with these words."""
    with pytest.raises(BundleError) as caught:
        verify(path, load_trusted_keys(path.parent / "maker"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_page_has_the_rows_that_are_forged_here() -> None:
    assert set(read_page_rows()) == {*ROWS, *ROWS_IN_OTHER_FILES}


@pytest.mark.parametrize("test", ROWS_IN_OTHER_FILES.values())
def test_a_row_that_needs_a_bundle_of_its_own_has_its_test(test: str) -> None:
    files = [Path(__file__).with_name(name) for name in ("test_forgeries.py", "test_service_verify.py")]
    assert any(f"def {test}(" in file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_page_is_what_a_forger_gets(bundles: tuple[Path, Path], folder: Path, row: str) -> None:
    unsigned, signed = read_page_rows()[row]
    assert signed.startswith("found")
    for nth, (edit, words) in enumerate(ROWS[row]):
        plain, maker_signed = (
            forge(shutil.copytree(source, folder / f"forged{nth}-{source.name}"), edit) for source in bundles
        )
        assert unsigned.startswith("found") == bool(words)
        if words:
            check_refusal(plain, words)
        else:
            assert verify(plain, load_trusted_keys(folder / "maker")).standing == "unsigned", nth
        check_refusal(maker_signed, "is not valid: something else was signed")


@pytest.mark.parametrize(("edit", "words"), OTHER_EDITS, ids=[words for _, words in OTHER_EDITS])
def test_an_edit_is_found_with_every_hash_made_again(
    bundles: tuple[Path, Path], edit: Edit, words: str
) -> None:
    check_refusal(forge(bundles[0], edit), words)


@pytest.mark.parametrize(
    ("edit", "words"), EDITS_UNDER_OLD_ROOTS, ids=[words for _, words in EDITS_UNDER_OLD_ROOTS]
)
def test_an_edit_is_found_by_what_the_statement_says_of_the_trees(
    bundles: tuple[Path, Path], edit: Edit, words: str
) -> None:
    check_refusal(forge(bundles[0], edit, reroot=False), words)


@pytest.mark.parametrize("settings", [Settings(), Settings(reuse=True)])
async def test_a_run_whose_clock_was_set_back_has_its_times_in_order_and_holds(
    make: MakeRuns,
    suite: WriteSuite,
    store: SqliteStore,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> None:
    if settings.reuse:
        await make(suite(*TESTS[:5]))
    seconds = count()

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, 12, tzinfo=tz) - timedelta(seconds=next(seconds))

    monkeypatch.setattr(runner, "datetime", Backwards)
    monkeypatch.setattr(writer, "datetime", Backwards)
    (result,) = await make(suite(*TESTS), settings=settings)
    assert result.run.finished_at is not None
    assert result.run.started_at <= result.run.finished_at
    attest(store, result.run, folder / "bundle", public=False, key=None)
    assert verify(folder / "bundle", {}).standing == "unsigned"
