"""Certificates of runs and bundles: only verified results are certified, and a failure leaves no bundle."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.bundles.keys import SigningKey, create_key
from proctor.bundles.trust_store import TrustedKey, load_trusted_keys, trust
from proctor.certification import (
    CertificationTerms,
    HeadlineScope,
    NotCertified,
    find_conditions,
    find_objections,
)
from proctor.errors import BundleError, ExitCode, UsageError
from proctor.model import Run, Selection, Settings
from proctor.reports.certificates import run_certificate
from proctor.reports.certificates.badge import render_badge
from proctor.reports.certificates.run_certificate import RunCertificate, badge_message, document_for
from proctor.reports.document import render_terminal
from proctor.reports.formatting import to_json
from proctor.services.bundles.attest import attest
from proctor.services.bundles.certify import certify_bundle, new_bundle, record_certificate_access
from proctor.services.bundles.verify import verify
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite

TESTS = tuple((f"t{n}", f"say {n}", f"say {n}" if n % 4 else "no") for n in range(48))
"""The target `echo` passes three of four."""


@pytest.fixture
async def run(make: MakeRuns, suite: WriteSuite) -> Run:
    (result,) = await make(suite(*TESTS), holdout=0.5)
    run: Run = result.run
    return run


@pytest.fixture
def plain(folder: Path) -> str:
    """The same cases in a suite without a holdout."""
    rows = [
        {"id": name, "category": "factual", "input": prompt, "ideal": expected}
        | {"assertion": {"type": "exact_match", "case_sensitive": True}}
        | {"metadata": {"difficulty": "easy", "tokens_est": 5}}
        for name, prompt, expected in TESTS
    ]
    (folder / "plain.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return "plain.jsonl"


@pytest.fixture
def key(folder: Path) -> SigningKey:
    return create_key(folder / "keys", "maker", {})


def certify(
    store: SqliteStore,
    run: Run,
    key: SigningKey | None = None,
    keys: dict[str, TrustedKey] | None = None,
    **options: Any,
) -> RunCertificate:
    """The certificate of a run, whose bundle is `b`."""
    terms, force = options.pop("terms", CertificationTerms()), options.pop("force", False)
    with new_bundle(store, run, Path("b"), key):
        return certify_bundle(Path("b"), keys or {}, terms, force=force, store=store)


def damage(store: SqliteStore, old: bytes, new: bytes) -> None:
    """Changes a stored trial directly in the database file."""
    store.close()
    with sqlite3.connect(store.path) as db:
        ((key, body),) = db.execute("SELECT rowid, body FROM trials WHERE instr(body, ?)", (old,)).fetchall()
        db.execute("UPDATE trials SET body = ? WHERE rowid = ?", (body.replace(old, new), key))


def test_the_number_is_that_of_the_holdout_as_verify_derives_it(store: SqliteStore, run: Run) -> None:
    certified = certify(store, run)
    bundle = verify(Path("b"), {})
    assert certified.claim == bundle.statement.claims["holdout"]
    assert (certified.claim.total, certified.scope.part) == (24, "holdout")
    assert (certified.graded_again, certified.recounted, certified.forced_objections) == (48, {}, ())
    assert (certified.trust_level, certified.signature_status) == ("self-attested", "unsigned")
    assert (certified.statement.run, certified.signers) == (run.id, ())


async def test_without_a_holdout_it_is_that_of_all(make: MakeRuns, plain: str, store: SqliteStore) -> None:
    (result,) = await make(plain)
    certified = certify(store, result.run)
    assert (certified.scope.part, certified.claim.passed, certified.claim.total) == ("all", 36, 48)


def test_verified_is_what_a_trusted_key_has_signed(
    store: SqliteStore, run: Run, key: SigningKey, folder: Path
) -> None:
    assert certify(store, run, key, load_trusted_keys(folder / "keys")).trust_level == "verified"
    assert certify_bundle(Path("b"), {}, CertificationTerms(), force=False).trust_level == "self-attested"


async def test_what_judges_said_is_recounted_and_their_names_are_told(
    make: MakeRuns, suite: Any, store: SqliteStore, key: SigningKey, folder: Path, module: Any
) -> None:
    judge = module('def f(prompt):\n    return \'{"score": 1.0, "reason": "it is"}\'\n')
    rows = [
        {"id": f"t{n}", "input": f"say {n}", "scorer": "llm_judge", "rubric": "Is polite."} for n in range(24)
    ]
    Path("judged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (result,) = await make("judged.jsonl", judges=(f"function:{judge}:f",), holdout=0.5)
    certified = certify(
        store, result.run, key, load_trusted_keys(folder / "keys"), terms=CertificationTerms(min_cases=1)
    )
    assert certified.trust_level == "recounted"
    assert sum(certified.recounted.values()) == 24
    assert [(judge_record.name, judge_record.calibration) for judge_record in certified.judges] == [
        (f"function:{judge}:f", None)
    ]


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["kept.db"])
def test_an_output_that_was_edited_in_the_store_is_found_and_leaves_no_bundle(
    store: SqliteStore, run: Run
) -> None:
    damage(store, b'"text":"say 7"', b'"text":"say 8"')
    edited = SqliteStore.open_file(store.path)
    with pytest.raises(BundleError, match=f"Run {run.id} fails verification. trials.jsonl:"):
        certify(edited, run)
    edited.close()
    assert not Path("b").exists()


def test_a_bundle_that_was_there_before_stays(store: SqliteStore, run: Run) -> None:
    attest(store, run, Path("b"), public=False, key=None)
    with pytest.raises(NotCertified):
        certify(store, run, terms=CertificationTerms(min_cases=25))
    assert Path("b").exists()


def test_an_edited_bundle_gets_no_certificate(store: SqliteStore, run: Run) -> None:
    certify(store, run)
    trials = Path("b/trials.jsonl")
    trials.write_bytes(trials.read_bytes().replace(b'"verdict":"fail"', b'"verdict":"pass"', 1))
    with pytest.raises(BundleError):
        certify_bundle(Path("b"), {}, CertificationTerms(), force=True)


def test_too_few_cases_are_refused_and_forced_ones_say_so(store: SqliteStore, run: Run) -> None:
    with pytest.raises(NotCertified, match="24 holdout cases") as error:
        certify(store, run, terms=CertificationTerms(min_cases=25))
    assert error.value.exit_code is ExitCode.FAILED
    assert not Path("b").exists()
    certified = certify(store, run, terms=CertificationTerms(min_cases=25), force=True)
    assert badge_message(certified).endswith(" · forced: 24 cases")


@pytest.mark.slow
async def test_errors_are_refused_unless_so_many_are_allowed(
    make: MakeRuns, plain: str, store: SqliteStore, module: Any
) -> None:
    name = module(
        "def f(text):\n    if text.endswith('1'):\n        raise ValueError('no')\n    return text\n"
    )
    (result,) = await make(plain, f"function:{name}:f", settings=Settings(retries=0))
    with pytest.raises(NotCertified, match="5 trials could not be measured") as error:
        certify(store, result.run)
    assert error.value.exit_code is ExitCode.NOT_MEASURED
    assert certify(store, result.run, terms=CertificationTerms(allow_errors=5)).claim.errors == 5
    forced = certify(store, result.run, force=True)
    assert badge_message(forced).endswith("forced: 5 errors")


@pytest.mark.slow
async def test_only_errors_of_the_certified_cases_count(
    make: MakeRuns, suite: Any, store: SqliteStore, module: Any
) -> None:
    name = module(
        "def f(text):\n    if text.endswith('1'):\n        raise ValueError('no')\n    return text\n"
    )
    (result,) = await make(suite(*TESTS), f"function:{name}:f", holdout=0.5, settings=Settings(retries=0))
    tally = result.tally
    assert 0 < tally.splits["holdout"].errors < tally.all.errors
    errors = tally.splits["holdout"].errors
    with pytest.raises(NotCertified, match=f"{errors} trials? could not be measured"):
        certify(store, result.run, terms=CertificationTerms(allow_errors=errors - 1, min_cases=1))
    certificate = certify(store, result.run, terms=CertificationTerms(allow_errors=errors, min_cases=1))
    assert certificate.scope.not_measured == errors


@pytest.mark.parametrize(
    ("selection", "words"),
    [(Selection(split="dev"), "dev cases alone"), (Selection(ids=("t1*",)), "picked cases")],
)
async def test_cases_that_were_chosen_are_refused(
    make: MakeRuns, suite: Any, store: SqliteStore, selection: Selection, words: str
) -> None:
    settings = Settings(selection=selection)
    (result,) = await make(suite(*TESTS), holdout=0.5, settings=settings, explicit=frozenset({"selection"}))
    with pytest.raises(NotCertified):
        certify(store, result.run, terms=CertificationTerms(min_cases=1))
    assert words in badge_message(
        certify(store, result.run, terms=CertificationTerms(min_cases=1), force=True)
    )


def test_an_unfinished_run_is_refused(store: SqliteStore, run: Run) -> None:
    store.update_run(replace(run, status="interrupted"))
    with pytest.raises(UsageError, match="not finished"):
        certify(store, store.run(run.id))
    assert not Path("b").exists()


def test_of_a_public_bundle_nothing_was_derived_so_that_it_claims_at_most(
    store: SqliteStore, run: Run, key: SigningKey, folder: Path
) -> None:
    attest(store, run, Path("p"), public=True, key=key)
    keys = load_trusted_keys(folder / "keys")
    with pytest.raises(NotCertified, match="hidden"):
        certify_bundle(Path("p"), keys, CertificationTerms(), force=False)
    forced = certify_bundle(Path("p"), keys, CertificationTerms(), force=True)
    assert (forced.trust_level, forced.statement.kind) == ("claimed", "public")
    assert badge_message(forced).endswith("forced: not derived again")


async def test_a_bar_that_only_the_run_has_is_told_on_the_badge(
    make: MakeRuns, plain: str, store: SqliteStore
) -> None:
    (result,) = await make(plain, settings=Settings(threshold=0.1), explicit=frozenset({"threshold"}))
    certified = certify(store, result.run)
    assert badge_message(certified).endswith(" · threshold 0.1")
    assert any("--threshold 0.1" in line for line in render_terminal(document_for(certified)))


@pytest.mark.parametrize("part", ["dev", "holdout"])
def test_that_it_was_forced_is_on_the_badge_whatever_else_is_told(
    store: SqliteStore, run: Run, part: Any
) -> None:
    worst = HeadlineScope(
        part=part, cases=1, not_measured=1234, hidden_trials=1, selection=Selection(limit=1)
    )
    suite = replace(run.suite, repeats_rule="any")
    certified = certify(store, run)
    long_named = replace(certified.statement.suite, name="a name that is too long for any badge of a suite")
    changed = replace(
        certified,
        statement=replace(certified.statement, suite=long_named),
        scope=worst,
        forced_objections=find_objections(worst, CertificationTerms()),
        conditions=find_conditions(replace(run, settings=Settings(threshold=0.123456), suite=suite)),
    )
    badge = render_badge(run_certificate.make_badge(changed, None)).partition("<g ")[2]
    assert badge_message(changed) in badge
    assert "picked cases" in badge
    assert f" {part}</text>" in badge


# --- looks -------------------------------------------------------------------------------------------------


def test_a_certificate_is_a_look_and_a_bundle_that_stays_reveals(store: SqliteStore, run: Run) -> None:
    certified = certify(store, run)
    assert record_certificate_access(store, run, certified, stays=False) == 1
    assert record_certificate_access(store, run, certified, stays=True) == 3
    assert [look.kind for look in store.holdout_accesses(run.suite.digest)] == ["rate", "rate", "reveal"]


async def test_looks_before_the_run_are_told(
    make: MakeRuns, suite: Any, store: SqliteStore, run: Run
) -> None:
    record_certificate_access(store, run, certify(store, run), stays=False)
    (result,) = await make(suite(*TESTS), holdout=0.5)
    with new_bundle(store, result.run, Path("c"), None):
        certified = certify_bundle(Path("c"), {}, CertificationTerms(), force=False)
    assert certified.statement.looks.rate == 1


# --- the bundle that is kept in the tree -------------------------------------------------------------------

EXAMPLE = Path(__file__).parents[3] / "examples" / "certificate"


def test_the_graders_of_today_still_derive_the_certificate_of_the_example(folder: Path) -> None:
    pem = (EXAMPLE / "maker.pub.pem").read_text(encoding="utf-8")
    maker, _ = trust(folder / "keys", pem, "maker", datetime(2026, 3, 1, tzinfo=UTC))
    certified = certify_bundle(EXAMPLE / "bundle", {maker.id: maker}, CertificationTerms(), force=False)
    expected = json.loads((EXAMPLE / "certificate.json").read_text(encoding="utf-8"))
    actual = json.loads(to_json(run_certificate.certificate_record(certified)))
    expected["looks"]["until_now"] = None  # a bundle does not know it
    expected["proctor"] = actual["proctor"] = ""
    assert actual == expected
    assert (expected["word"], expected["cases"], expected["part"]) == ("verified", 40, "holdout")
    assert render_badge(run_certificate.make_badge(certified, "bundle")) == (EXAMPLE / "badge.svg").read_text(
        "utf-8"
    )


def test_the_example_is_small_and_has_no_private_key() -> None:
    files = [path for path in EXAMPLE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert not any(b"PRIVATE" in path.read_bytes() for path in files)
