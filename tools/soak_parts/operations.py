"""What a soak has Proctor do: a table of operations, each a command or two and what must hold after them."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tools.soak_parts.commands import Child, Site
from tools.soak_parts.endpoint import CALM, JUDGE, Endpoint, random_mood
from tools.soak_parts.ledger import Fault, Ledger, missing_rows
from tools.soak_parts.questions import answer_to, passes
from tools.soak_parts.store_file import (
    StoredRun,
    StoredTrial,
    check_integrity,
    connect_read_only,
    read_runs,
    read_trials,
)
from tools.soak_parts.suites import PROGRAMS, SuiteFile, write_suite

from proctor.reports import REPORTS

REPORT_ENDINGS = tuple(name.removeprefix(".") for name in REPORTS.names())
MAX_RUNS = 12
"""More runs than that in one store teach nothing new."""
_MEASURED_CODES = frozenset({0, 1, 3})
"""Passed, failed, not measured."""

Check = Callable[[Child], Iterator[Fault]]


def _no_check(_child: Child) -> Iterator[Fault]:
    return iter(())


@dataclass(frozen=True)
class Step:
    """One operation: its commands, and what must hold after them."""

    words: list[str]
    parallel: list[str] | None = None
    """A second command, which runs at the same time on the same store."""
    codes: frozenset[int] = frozenset({0})
    """The exit codes of the first command where nothing ends it early."""
    parallel_codes: frozenset[int] = frozenset({0, 1, 3})
    labels: tuple[str, ...] = ()
    """Whose requests it may send."""
    check: Check = _no_check
    """What else must hold where nothing ended it early."""


@dataclass
class Chapter:
    """One store from its first run to its last check, and what a worker knows of it."""

    worker: int
    number: int
    site: Site
    endpoint: Endpoint
    ledger: Ledger
    auditor: Ledger
    """Of the store into which bundles are imported."""
    has_store_command: bool
    suites: dict[str, SuiteFile] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    """How often the runs of a label ask each case."""
    bundles: dict[str, Path] = field(default_factory=dict)
    """The bundle of a run, which is known to be whole."""
    checked_calls: Counter[str] = field(default_factory=Counter)
    """How many calls of a label were compared with the store already."""
    _serial: int = 0

    def next_serial(self) -> int:
        """A number that nothing else in this chapter has."""
        self._serial += 1
        return self._serial

    def in_store(self, *words: str) -> list[str]:
        """A command on the store."""
        return [*words, "--store", str(self.site.store)]

    def runs(self) -> list[StoredRun]:
        """The runs of the store, oldest first."""
        return list(read_runs(self.site.store).values())

    def finished_runs(self) -> list[StoredRun]:
        """Those that have ended."""
        return [run for run in self.runs() if run.status == "finished"]

    def unfinished_runs(self) -> list[StoredRun]:
        """Those that can be resumed: of each label only the newest, as later ones have taken its answers."""
        newest = {run.label: run for run in self.runs() if not run.regrade}
        return [run for run in newest.values() if run.status != "finished"]

    def trials(self, run: str) -> list[StoredTrial]:
        """The trials of a run."""
        db = connect_read_only(self.site.store)
        try:
            return [trial for _, trial in read_trials(db) if trial.run == run]
        finally:
            db.close()

    def runs_with_errors(self) -> list[StoredRun]:
        """Finished runs with an ERROR or UNSCORED: of each label only the newest."""
        newest = {run.label: run for run in self.runs() if not run.regrade}
        return [run for run in newest.values() if run.status == "finished" and self.has_errors(run.id)]

    def has_errors(self, run: str) -> bool:
        """Whether it has an ERROR or UNSCORED."""
        return any(trial.verdict not in {"pass", "fail"} for trial in self.trials(run))


Operation = Callable[[Chapter, Random], Step | None]
"""Chooses a step; None where there is nothing that it could be about."""


# --- runs --------------------------------------------------------------------------------------------------


def run(chapter: Chapter, random: Random) -> Step | None:
    """A new run of a new suite or of one that was run before."""
    if len(chapter.runs()) >= MAX_RUNS:
        return None
    label, words = _new_run(chapter, random)
    return Step(words, codes=_MEASURED_CODES, labels=(label,), check=_totals_check(chapter))


def run_beside_run(chapter: Chapter, random: Random) -> Step | None:
    """Two runs on one store at the same time."""
    if len(chapter.runs()) >= MAX_RUNS:
        return None
    (label, words), (other, second_words) = _new_run(chapter, random), _new_run(chapter, random)
    return Step(words, second_words, _MEASURED_CODES, labels=(label, other), check=_totals_check(chapter))


def run_beside_save(chapter: Chapter, random: Random) -> Step | None:
    """A run, and a suite that is saved at the same time."""
    if len(chapter.runs()) >= MAX_RUNS:
        return None
    label, words = _new_run(chapter, random)
    return Step(
        words, _save_words(chapter, random), _MEASURED_CODES, labels=(label,), check=_totals_check(chapter)
    )


def run_beside_regrade(chapter: Chapter, random: Random) -> Step | None:
    """A run, and another run that is graded again at the same time."""
    finished = _gradable(chapter)
    if not finished or len(chapter.runs()) >= MAX_RUNS:
        return None
    label, words = _new_run(chapter, random)
    parallel_words = chapter.in_store("regrade", random.choice(finished).id, "--json")
    return Step(words, parallel_words, _MEASURED_CODES, labels=(label,), check=_totals_check(chapter))


def run_beside_backup(chapter: Chapter, random: Random) -> Step | None:
    """A run, and a backup that is made meanwhile."""
    if not chapter.has_store_command or not chapter.runs() or len(chapter.runs()) >= MAX_RUNS:
        return None
    label, words = _new_run(chapter, random)
    copy, parallel_words = _backup_words(chapter)
    acknowledged = chapter.ledger.snapshot()

    def check(child: Child) -> Iterator[Fault]:
        yield from _totals_check(chapter)(child)
        yield from _copy_faults(copy, acknowledged)

    return Step(words, parallel_words, _MEASURED_CODES, frozenset({0}), labels=(label,), check=check)


def resume(chapter: Chapter, random: Random) -> Step | None:
    """What is missing of a run that was cut short."""
    unfinished = chapter.unfinished_runs()
    if not unfinished:
        return None
    run = random.choice(unfinished)
    chapter.endpoint.moods[run.label] = random_mood(random)
    words = _resume_words(chapter, run)
    return Step(words, codes=_MEASURED_CODES, labels=(run.label,), check=_totals_check(chapter))


def resume_twice(chapter: Chapter, random: Random) -> Step | None:
    """Two processes that resume one run: one of them is refused, or finds nothing missing."""
    unfinished = chapter.unfinished_runs()
    if not unfinished:
        return None
    run = random.choice(unfinished)
    chapter.endpoint.moods[run.label] = CALM
    words = _resume_words(chapter, run)
    codes = _MEASURED_CODES | {4}
    return Step(words, list(words), codes, codes, labels=(run.label,))


def retry_errors(chapter: Chapter, random: Random) -> Step | None:
    """What went wrong in a run, asked again as a new one."""
    failed_runs = chapter.runs_with_errors()
    if not failed_runs or len(chapter.runs()) >= MAX_RUNS * 2:
        return None
    run = random.choice(failed_runs)
    chapter.endpoint.moods[run.label] = random_mood(random)
    words = _retry_words(chapter, run)
    return Step(words, codes=_MEASURED_CODES, labels=(run.label,), check=_totals_check(chapter))


def regrade(chapter: Chapter, random: Random) -> Step | None:
    """Stored answers graded again; no target is asked."""
    finished = _gradable(chapter)
    if not finished or len(chapter.runs()) >= MAX_RUNS * 2:
        return None
    run = random.choice(finished)
    chapter.endpoint.moods[run.label] = random_mood(random)
    words = chapter.in_store("regrade", run.id, "--json")
    return Step(words, codes=_MEASURED_CODES, labels=(run.label,), check=_totals_check(chapter))


def delete_run(chapter: Chapter, random: Random) -> Step | None:
    """A run that is forgotten with its trials."""
    runs = chapter.runs()
    if len(runs) < MAX_RUNS // 2:
        return None
    selected_run = random.choice(runs)
    if any(run.label == selected_run.label and run.id != selected_run.id for run in runs):
        return None  # later runs of the label have its answers, and the ledger goes by labels
    chapter.ledger.expect_deletion(selected_run.id)
    return Step(chapter.in_store("runs", "delete", selected_run.id, "--yes"))


def _new_run(chapter: Chapter, random: Random) -> tuple[str, list[str]]:
    if chapter.suites and random.random() < 0.4:
        suite = random.choice(list(chapter.suites.values()))
    else:
        name = f"s{chapter.next_serial()}"
        suite = chapter.suites[name] = write_suite(chapter.site.folder / "suites", name, random)
    label = f"w{chapter.worker}c{chapter.number}r{chapter.next_serial()}"
    chapter.endpoint.moods[label] = random_mood(random)
    by_program = suite.cases <= 40 and random.random() < 0.3
    repeats = 1 if by_program or suite.cases > 50 else random.choice((1, 1, 2, 3))
    chapter.repeats[label] = repeats
    target = f"openai:{label}@{chapter.endpoint.url}"
    if by_program:
        log = chapter.site.folder / "answers.log"
        target = f"command:{shlex.join([sys.executable, str(PROGRAMS), 'agent', str(log), label])}"
    concurrency = random.choice((1, 4, 16, 64) if suite.cases * repeats <= 30 else (8, 16, 64))
    flags = {
        "--target": target,
        "--repeat": repeats,
        "--concurrency": concurrency,
        "--timeout": random.choice((5, 8)),
        "--retries": random.randint(0, 3),
    }
    if suite.judged:
        flags["--judge"] = f"openai:{JUDGE}{label}@{chapter.endpoint.url}"
    words = [str(word) for flag in flags.items() for word in flag]
    words += ["--no-reuse", "--json", *random.choice(([], [], ["--no-holdout"]))]
    return label, chapter.in_store("run", str(suite.path), *words)


def _resume_words(chapter: Chapter, run: StoredRun) -> list[str]:
    return chapter.in_store("run", f"--resume={run.id}", "--json")


def _retry_words(chapter: Chapter, run: StoredRun) -> list[str]:
    return chapter.in_store("run", f"--retry-errors={run.id}", "--json", "--timeout", "8", "--retries", "3")


def _gradable(chapter: Chapter) -> list[StoredRun]:
    """The runs that a regrade takes all answers from."""
    return [run for run in chapter.finished_runs() if not run.regrade]


def _totals_check(chapter: Chapter) -> Check:
    """What a run printed must be what the store has, and what the endpoint's answers imply."""

    def check(child: Child) -> Iterator[Fault]:
        try:
            summary = json.loads(child.output())
        except ValueError:
            yield Fault("wrong", f"stdout is no JSON: {child.output()[:200]!r}")
            return
        if summary["exit_code"] != child.code:
            yield Fault("wrong", f"exit code {child.code}, and {summary['exit_code']} in the JSON")
        for record in summary["runs"]:
            yield from _total_faults(record, chapter.trials(record["run"]))

    return check


def _total_faults(record: Mapping[str, Any], trials: list[StoredTrial]) -> Iterator[Fault]:
    names = {"passed": "pass", "failed": "fail", "errors": "error", "unscored": "unscored"}
    for name, verdict in names.items():
        stored_count = sum(trial.verdict == verdict for trial in trials)
        if record[name] != stored_count:
            yield Fault(
                "wrong", f"run {record['run']} printed {name} {record[name]}, and {stored_count} are stored"
            )
    if record["status"] == "finished" and record["total"] != record["planned"]:
        yield Fault("wrong", f"run {record['run']} is finished with {record['total']} of {record['planned']}")


def truth_faults(chapter: Chapter, run: StoredRun) -> Iterator[Fault]:
    """What a run without errors must be: every case and repeat of its suite, with the only right verdict."""
    suite, repeats = chapter.suites[run.suite], chapter.repeats[run.label]
    tokens = [f"{suite.name}-{number}" for number in range(suite.cases)]
    expected = {
        (token, repeat): "pass" if passes(answer_to(token, repeat)) else "fail"
        for token in tokens
        for repeat in range(repeats)
    }
    verdicts = {(trial.token, trial.repeat): trial.verdict for trial in chapter.trials(run.id)}
    if verdicts != expected:
        wrong = [key for key in expected.keys() | verdicts.keys() if expected.get(key) != verdicts.get(key)]
        yield Fault(
            "wrong", f"run {run.id} ended with other verdicts than its answers imply: {sorted(wrong)[:5]}"
        )


# --- bundles and reports -----------------------------------------------------------------------------------


def attest(chapter: Chapter, random: Random) -> Step | None:
    """A run as a signed bundle."""
    runs = chapter.finished_runs()
    if not runs:
        return None
    run = random.choice(runs)
    path = chapter.site.folder / f"bundle-{chapter.next_serial()}{random.choice(('', '.zip'))}"

    def check(_child: Child) -> Iterator[Fault]:
        chapter.bundles[run.id] = path
        return iter(())

    return Step(chapter.in_store("attest", run.id, "-o", str(path)), check=check)


def verify(chapter: Chapter, random: Random) -> Step | None:
    """A bundle, whose number must be the run's."""
    if not chapter.bundles:
        return None
    run, path = random.choice(list(chapter.bundles.items()))
    passed = sum(trial.verdict == "pass" for trial in chapter.trials(run)) if _has(chapter, run) else None

    def check(child: Child) -> Iterator[Fault]:
        claims = json.loads(child.output())["bundles"][0]["claims"]["all"]
        if passed is not None and claims["passed"] != passed:
            yield Fault(
                "wrong", f"the bundle of run {run} says {claims['passed']} passed, the store {passed}"
            )

    return Step(["verify", str(path), "--json", "--require-signature"], check=check)


def import_bundle(chapter: Chapter, random: Random) -> Step | None:
    """A bundle, into the store of somebody else."""
    if not chapter.bundles:
        return None
    run, path = random.choice(list(chapter.bundles.items()))
    trials = chapter.trials(run) if _has(chapter, run) else None

    def check(_child: Child) -> Iterator[Fault]:
        db = connect_read_only(chapter.auditor.store)
        try:
            imported = {t.key: t.verdict for _, t in read_trials(db) if t.run == run}
        finally:
            db.close()
        if trials is not None and imported != {trial.key: trial.verdict for trial in trials}:
            yield Fault("wrong", f"run {run} has other trials or verdicts after its import")

    words = ["runs", "import", str(path), "--allow-programs", "--store", str(chapter.auditor.store)]
    return Step(words, check=check)


def _has(chapter: Chapter, run: str) -> bool:
    return any(other.id == run for other in chapter.runs())


def compare(chapter: Chapter, random: Random) -> Step | None:
    """Two runs of one suite."""
    runs = chapter.finished_runs()
    pairs = [(a, b) for a in runs for b in runs if a.id != b.id and a.suite == b.suite]
    if not pairs:
        return None
    first, second = random.choice(pairs)
    return Step(chapter.in_store("compare", first.id, second.id, "--json"), codes=frozenset({0, 1, 3, 5}))


def export(chapter: Chapter, random: Random) -> Step | None:
    """Every trial of a run, in every form."""
    runs = chapter.runs()
    if not runs:
        return None
    run = random.choice(runs)
    ending = random.choice(REPORT_ENDINGS)
    path = chapter.site.folder / f"export-{chapter.next_serial()}.{ending}"

    def check(_child: Child) -> Iterator[Fault]:
        if ending == "jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            stored_count = sum(trial.verdict is not None for trial in chapter.trials(run.id))
            if len(rows) != stored_count:
                yield Fault(
                    "wrong", f"{path.name} has {len(rows)} trials of run {run.id}, the store {stored_count}"
                )
        path.unlink()

    words = chapter.in_store("runs", "export", run.id, "-o", str(path), "--reveal")
    return Step(words, check=check)


def show(chapter: Chapter, random: Random) -> Step | None:
    """The numbers of a run, counted again."""
    runs = chapter.runs()
    if not runs:
        return None
    words = chapter.in_store("runs", "show", random.choice(runs).id, "--json")
    return Step(words, codes=_MEASURED_CODES | {2})


def list_runs(chapter: Chapter, _random: Random) -> Step | None:
    """One line a run."""
    return Step(chapter.in_store("runs", "list", "--json")) if chapter.runs() else None


def tag(chapter: Chapter, random: Random) -> Step | None:
    """A mark on a run."""
    runs = chapter.runs()
    if not runs:
        return None
    words = ["runs", "tag", random.choice(runs).id, f"tag{random.randint(1, 5)}"]
    return Step(chapter.in_store(*words))


# --- suites ------------------------------------------------------------------------------------------------


def save_suite(chapter: Chapter, random: Random) -> Step | None:
    """A suite, saved without a run."""
    return Step(_save_words(chapter, random))


def delete_suite(chapter: Chapter, random: Random) -> Step | None:
    """A suite that was saved; one that has runs stays."""
    if not chapter.suites or not chapter.site.store.exists():
        return None
    name = random.choice(list(chapter.suites))
    words = chapter.in_store("suites", "delete", name, "--yes")
    return Step(words, codes=frozenset({0, 4}))


def _save_words(chapter: Chapter, random: Random) -> list[str]:
    name = f"s{chapter.next_serial()}"
    suite = chapter.suites[name] = write_suite(chapter.site.folder / "suites", name, random)
    return chapter.in_store("suites", "save", str(suite.path))


# --- the store itself --------------------------------------------------------------------------------------


def check_store(chapter: Chapter, _random: Random) -> Step | None:
    """Whether the store is sound."""
    if not chapter.has_store_command or not chapter.runs():
        return None
    return Step(chapter.in_store("store", "check", "--json"))


def backup(chapter: Chapter, _random: Random) -> Step | None:
    """A copy of the store, which must have all that was acknowledged before."""
    if not chapter.has_store_command or not chapter.runs():
        return None
    copy, words = _backup_words(chapter)
    acknowledged = chapter.ledger.snapshot()
    return Step(words, check=lambda _child: _copy_faults(copy, acknowledged))


def repair(chapter: Chapter, _random: Random) -> Step | None:
    """All that is readable, in a new store; of a sound store that is all."""
    if not chapter.has_store_command or not chapter.runs():
        return None
    copy = chapter.site.folder / f"repaired-{chapter.next_serial()}.db"
    acknowledged = chapter.ledger.snapshot()
    words = chapter.in_store("store", "repair", str(copy))
    return Step(words, check=lambda _child: _copy_faults(copy, acknowledged))


def collect_garbage(chapter: Chapter, _random: Random) -> Step | None:
    """What nothing needs any more, removed."""
    if not chapter.has_store_command or not chapter.runs():
        return None
    return Step(chapter.in_store("store", "gc", "--yes"))


def _backup_words(chapter: Chapter) -> tuple[Path, list[str]]:
    copy = chapter.site.folder / f"backup-{chapter.next_serial()}.db"
    return copy, chapter.in_store("store", "backup", str(copy))


def _copy_faults(copy: Path, acknowledged: list[StoredTrial]) -> Iterator[Fault]:
    if (integrity := check_integrity(copy)) != "ok":
        yield Fault("wrong", f"{copy.name}: {integrity}")
        return
    db = connect_read_only(copy)
    try:
        for fault in missing_rows(acknowledged, [trial for _, trial in read_trials(db)]):
            yield Fault(fault.kind, f"{copy.name}: {fault.text}")
    finally:
        db.close()
    for path in copy.parent.glob(f"{copy.name}*"):
        path.unlink()


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "run": (16, run),
    "run + run": (4, run_beside_run),
    "run + save": (3, run_beside_save),
    "run + regrade": (3, run_beside_regrade),
    "run + backup": (3, run_beside_backup),
    "resume": (16, resume),
    "resume twice": (3, resume_twice),
    "retry errors": (8, retry_errors),
    "regrade": (6, regrade),
    "delete run": (3, delete_run),
    "attest": (6, attest),
    "verify": (4, verify),
    "import": (5, import_bundle),
    "compare": (3, compare),
    "export": (6, export),
    "show": (2, show),
    "list": (1, list_runs),
    "tag": (2, tag),
    "save suite": (3, save_suite),
    "delete suite": (2, delete_suite),
    "check": (2, check_store),
    "backup": (3, backup),
    "repair": (2, repair),
    "gc": (3, collect_garbage),
}
"""Each with how often it comes, beside the others."""
