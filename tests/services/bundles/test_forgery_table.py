"""Each row of the table in docs/verify.md, forged: in a bundle without a signature, and in a signed one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proctor.bundles.keys import get_signing_key
from proctor.bundles.trust_store import load_trusted_keys
from proctor.errors import BundleError
from proctor.model import Settings
from proctor.services.bundles.attest import attest
from proctor.services.bundles.verify import verify
from proctor.services.runs.execution import runner, writer
from proctor.verdicts import Counts
from support.forging import TESTS, Forger, passing

if TYPE_CHECKING:
    from proctor.stores.sqlite.store import SqliteStore


Edit = Callable[[Any], object]
PAGE = Path(__file__).parents[3] / "docs" / "verify.md"


def trial(forger: Any, case_id: str = "t3", **fields: Any) -> None:
    forger.trial(case_id)["trial"].update(fields)


def output(forger: Any, case_id: str = "t3", **fields: Any) -> None:
    forger.trial(case_id)["trial"]["output"].update(fields)


def setting(forger: Any, **fields: Any) -> None:
    forger.config["settings"] = {**forger.config.get("settings", {}), **fields}


def without(forger: Any, *fields: str) -> None:
    for field in fields:
        del forger.trial("t3")["trial"][field]


def failed_by_endpoint(forger: Any, kind: str = "http") -> None:
    line = forger.trial("t3")
    del line["trial"]["output"], line["trial"]["scores"]
    line["trial"]["failure"] = {"stage": "target", "kind": kind, "message": "m"}
    line["verdict"] = "error"
    counts: dict[str, Counts] = {name: Counts() for name in ("all", "dev", "holdout")}
    passed: list[str] = []
    failed: list[str] = []
    for one in forger.trials:
        verdict, split = one["verdict"], one["trial"]["split"]
        for name in ("all", split):
            counts[name].passed += verdict == "pass"
            counts[name].failed += verdict == "fail"
            counts[name].errors += verdict == "error"
            counts[name].cases += 1
        if verdict != "error":
            (passed if verdict == "pass" else failed).append(one["trial"]["case_id"])
    forger.own["claims"] = {name: forger._claim(one) for name, one in counts.items()}
    forger.predicate.update(passedTests=passed, failedTests=failed)


def moved(forger: Any) -> None:
    """All times, an earlier year in every place."""

    def earlier(text: str) -> str:
        return "2020" + text[4:]

    for name in ("started_at", "finished_at"):
        forger.config[name] = forger.own[name] = earlier(forger.config[name])
    for line in forger.trials:
        line["trial"]["started_at"] = earlier(line["trial"]["started_at"])


def renamed(forger: Any) -> None:
    forger.config["id"] = forger.own["run"] = "20200101-000000-abcdef"


def named(forger: Any, name: str) -> None:
    forger.own["suite"]["name"] = forger.suite[0]["suite"]["name"] = name
    forger.predicate["configuration"][0]["name"] = name


def targeted(forger: Any, name: str) -> None:
    forger.own["target"]["name"] = forger.config["target"]["name"] = name


def recounted(edit: Edit) -> Edit:
    def change(forger: Any) -> None:
        edit(forger)
        forger.recount()

    return change


def lenient(forger: Any) -> None:
    setting(forger, threshold=0)
    for line in forger.trials:
        line["verdict"] = "pass"
    forger.recount()


def swapped(forger: Any) -> None:
    forger.trials[1], forger.trials[3] = forger.trials[3], forger.trials[1]
    forger.recount()


def added(forger: Any) -> None:
    forger.trials.append({**json.loads(json.dumps(forger.trial("t1"))), "salt": "0" * 64})
    forger.recount()


def ended(forger: Any) -> None:
    forger.config["finished_at"] = forger.own["finished_at"] = "2020-01-01T00:00:00Z"


ROWS: dict[str, list[Edit]] = {
    "an answer, score, verdict, claim or name of a passed test, all hashes made again": [
        lambda f: output(f, "t1", text="something else"),
        recounted(lambda f: passing(f.trial("t3"))),
        recounted(lambda f: f.trial("t3").update(verdict="pass")),
        lambda f: f.own["claims"]["all"].update(passed=9),
        lambda f: f.predicate["passedTests"].append("t0"),
    ],
    "a failing trial left out, a passing one put in, lines swapped": [
        recounted(lambda f: f.trials.remove(f.trial("t3"))),
        added,
        swapped,
    ],
    "split, settings, target, run id or times, in one place": [
        lambda f: f.own.update(split="all"),
        lambda f: setting(f, threshold=0),
        lambda f: f.config["target"].update(model="other"),
        lambda f: f.own.update(run="20200101-000000-abcdef"),
        lambda f: f.own.update(started_at="2020-01-01T00:00:00Z"),
    ],
    "a run that ends before it begins, or a trial outside of its run": [
        ended,
        lambda f: trial(f, started_at="2020-01-01T00:00:00Z"),
        lambda f: trial(f, started_at="2999-01-01T00:00:00Z"),
    ],
    "an answer beside a failure or neither, scores without an answer, a case said to be wrong in its file": [
        lambda f: trial(f, failure={"stage": "target", "kind": "http", "message": "m"}),
        lambda f: without(f, "output", "scores"),
        lambda f: without(f, "output"),
        lambda f: failed_by_endpoint(f, "invalid"),
    ],
    "tokens, cost or latency below 0, or more than 10⁹ tokens": [
        lambda f: output(f, usage={"input_tokens": -5}),
        lambda f: output(f, usage={"output_tokens": 10**9 + 1}),
        lambda f: output(f, cost_usd=-1),
        lambda f: output(f, latency_ms=-1),
        lambda f: output(f, queue_ms=-1),
        lambda f: output(f, duration_ms=-1),
    ],
    "control characters in the name of a suite, target, case, tag or judge": [
        lambda f: named(f, "a\x1b[2Jb"),
        lambda f: named(f, "a\u202eb"),
        lambda f: targeted(f, "a\x07b"),
        lambda f: f.suite[4]["case"].update(id="t3\x1b[2J"),
        lambda f: f.suite[4]["case"].update(tags=["a\x00"]),
        lambda f: f.suite[4]["case"].update(category="a\x9b"),
        lambda f: f.config.update(judges=[{"name": "a\x1bb", "kind": "echo"}]),
    ],
    "the environment, holdout accesses, a salt, the run id or the times, in all places at once": [
        lambda f: f.environment["versions"].update(python="9.9"),
        lambda f: f.own.update(looks={"rate": 99, "reveal": 0}),
        lambda f: f.suite[1].update(salt="ab" * 32),
        renamed,
        moved,
    ],
    "threshold, selection or seed of the split, in all places at once": [lenient],
    (
        "the tags or the category of a case; reason, details and entries of a score; "
        "model, finish reason, latency and cost within limits"
    ): [
        lambda f: f.suite[4]["case"].update(tags=["easy"]),
        lambda f: f.suite[4]["case"].update(category="easy"),
        lambda f: f.trial("t3")["trial"]["scores"][0].update(reason="It is perfect."),
        lambda f: f.trial("t3")["trial"]["scores"][0].update(details={"raw_score": 1}),
        lambda f: f.trial("t3")["trial"]["scores"][0].update(entries=[{"text": "x", "passed": True}]),
        lambda f: output(f, model="other", finish_reason="stop", fingerprint="other"),
        lambda f: output(f, latency_ms=1, cost_usd=0),
    ],
    "answers of earlier runs in place of new ones": [lambda f: trial(f, source_run="20200101-000000-abcdef")],
    "a failed answer made an error of the endpoint": [failed_by_endpoint],
}
ELSEWHERE = {
    "a file changed, added, left out, or a link in its place": "test_an_added_file_is_found",
    "a doubled key, a field that is unknown, or JSON written in another way": (
        "test_bytes_that_say_the_same_in_another_way_are_found"
    ),
    "a judgment, its reply left as it is; a judge's reply left out; another rule of counting": (
        "test_judgments_that_were_outvoted_or_left_out_are_found"
    ),
    "a judgment together with its reply": "test_what_judges_said_is_recounted",
    "the claim on the hidden holdout of a public bundle": (
        "test_a_forged_claim_on_a_hidden_holdout_rests_on_the_signature_alone"
    ),
    "everything made again as a whole, as by running a better target under this one's name": (
        "test_a_bundle_made_anew_as_a_whole_is_told_from_the_true_one_by_its_signature_alone"
    ),
    "signed again by the forger": ("test_a_bundle_signed_again_by_its_forger_is_signed_by_an_unknown_key"),
    "another bundle's signature, a foreign key id, or a signature twice": "test_a_signature_twice_is_found",
}
"""Rows whose forgeries need other bundles: a test of each in test_forgeries.py or test_verifying.py."""


def page_rows() -> dict[str, tuple[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| forged |") :].split("\n\n")[0].splitlines()[2:]
    cells = [re.split(r" \| ", line.strip("| ")) for line in table]
    return {row: (unsigned, signed) for row, unsigned, signed in cells}


@pytest.fixture
async def bundles(
    make: Callable[..., Awaitable[Any]], suite: Callable[..., str], store: SqliteStore, folder: Path
) -> tuple[Path, Path]:
    """The same run as a bundle without a signature and as a signed one."""
    (done,) = await make(suite(*TESTS))
    attest(store, done.run, folder / "unsigned", public=False, key=None)
    attest(store, done.run, folder / "signed", public=False, key=get_signing_key(folder / "maker", None))
    return folder / "unsigned", folder / "signed"


def test_the_page_has_the_rows_that_are_forged_here() -> None:
    assert set(page_rows()) == {*ROWS, *ELSEWHERE}


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_a_row_that_needs_a_bundle_of_its_own_has_its_test(test: str) -> None:
    files = [Path(__file__).with_name(name) for name in ("test_forgeries.py", "test_service_verify.py")]
    assert any(f"def {test}(" in file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("row", ROWS)
async def test_a_row_of_the_page_is_what_a_forger_gets(
    bundles: tuple[Path, Path], folder: Path, row: str
) -> None:
    unsigned, signed = page_rows()[row]
    known = load_trusted_keys(folder / "maker")
    assert signed.startswith("found")
    for nth, edit in enumerate(ROWS[row]):
        for source, is_found in zip(bundles, (unsigned.startswith("found"), True), strict=True):
            path = folder / f"forged{nth}-{source.name}"
            shutil.copytree(source, path)
            forger = Forger(path)
            edit(forger)
            forger.write()
            if is_found:
                with pytest.raises(BundleError):
                    verify(path, known)
            else:
                assert verify(path, known).standing == "unsigned", nth


@pytest.mark.parametrize("settings", [Settings(), Settings(reuse=True)])
async def test_a_run_whose_clock_was_set_back_has_its_times_in_order_and_holds(
    make: Callable[..., Awaitable[Any]],
    suite: Callable[..., str],
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
    (done,) = await make(suite(*TESTS), settings=settings)
    assert done.run.started_at <= done.run.finished_at
    attest(store, done.run, folder / "bundle", public=False, key=None)
    assert verify(folder / "bundle", {}).standing == "unsigned"
