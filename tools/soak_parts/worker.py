"""One worker: chapters, each of them a new store, with random operations and a comparison after each."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Lock
from time import monotonic

from tools.soak_parts.commands import (
    DISTURBANCES,
    NO_DISTURBANCE,
    Child,
    Disturbance,
    Moment,
    Site,
    end_orphans,
)
from tools.soak_parts.endpoint import CALM, Call, Endpoint
from tools.soak_parts.ledger import GRACE_S, Fault, Ledger, doubled_calls, lost_answers
from tools.soak_parts.operations import (
    OPERATIONS,
    Chapter,
    Step,
    check_store,
    collect_garbage,
    resume,
    retry_errors,
    truth_faults,
)

OPERATIONS_PER_CHAPTER = 40
_DISK_BYTES = 256 * 2**20
_MAX_ROUNDS = 5
"""So often a run is resumed, and its errors are asked again, until it must be whole."""
_USUAL_S = 1.5
"""What a command takes of which nothing is known yet."""
_SHARE_WHILE_ASKING = 0.6
_ASKING_S = 1.0
_LOOK_EVERY_S = 0.05
_STALL_WINDOW_S = 10.0
_STALL_FACTOR = 3
"""A machine that stalls this process stalls Proctor too, which needs several turns to store an answer."""
_DOCUMENTED_CODES = frozenset(range(6))
_ENDED_CODES = _DOCUMENTED_CODES | {-signal.SIGKILL, -signal.SIGTERM}
_BUSY_S = 30.0
"""A store that is locked for longer may be given up."""
_EXPECTED_NAME = re.compile(
    r"(store|auditor)\.db(-wal|-shm|-claims)?|suites|keys|tmp|answers\.log"
    r"|(bundle|export|backup|repaired)-\d+(\.\w+)?"
)


@dataclass
class Totals:
    """What all workers did and found, counted."""

    operations: Counter[str] = field(default_factory=Counter)
    disturbed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By operation and by what disturbed it."""
    kills: int = 0
    calls: int = 0
    """Requests that were no judge's."""
    answers: int = 0
    """Those with a whole answer that was delivered."""
    rows: int = 0
    """Rows of stores that were acknowledged."""
    faults: Counter[str] = field(default_factory=Counter)
    orphans: Counter[str] = field(default_factory=Counter)
    """Processes that lived on, by the operation that started them."""
    unacknowledged: int = 0
    """Answers that were given so shortly before a kill that they may be lost, and are."""
    left_files: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    """To the endpoint."""
    tricks: Counter[str] = field(default_factory=Counter)
    """What the endpoint did with requests, also a judge's; the empty name is nothing special."""
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class Plan:
    """What a soak was asked for."""

    seed: int
    folder: Path
    """Absolute."""
    disturbances: tuple[tuple[int, Disturbance], ...] = DISTURBANCES
    has_store_command: bool = False
    between: Callable[[Chapter], None] = lambda _chapter: None
    """Called before each operation; a test breaks something here."""


@dataclass(frozen=True)
class Attempt:
    """One step that is made."""

    chapter: Chapter
    name: str
    """Unique in its chapter; the files with its output begin with it."""
    kind: str
    step: Step
    disturbance: Disturbance
    children: list[Child]

    @property
    def is_cut_short(self) -> bool:
        """Whether the first command need not have come to its end."""
        return self.disturbance.may_end and (
            self.children[0].signalled is not None or not self.disturbance.is_durable
        )


class Worker:
    """Makes chapters until it is told to stop."""

    def __init__(
        self, number: int, plan: Plan, endpoint: Endpoint, totals: Totals, report: Callable[[str], None]
    ) -> None:
        """Nothing is begun yet.

        Args:
            number: its own, from 0.
            plan: what was asked for.
            endpoint: who answers; it runs.
            totals: where all is counted.
            report: told of each operation with faults, in lines of text.
        """
        self._number = number
        self._plan = plan
        self._endpoint = endpoint
        self._totals = totals
        self._report = report
        self._usual_s: dict[str, float] = {}
        self._home = plan.folder / f"w{number}"

    def work(self, stopped: Event) -> None:
        """Make one chapter after the other."""
        disk = self._home / "disk"
        disk.mkdir(parents=True)
        is_small = _mount(disk)
        try:
            number = 0
            while not stopped.is_set():
                self._make_chapter(number, disk / f"c{number}", is_small, stopped)
                number += 1
        finally:
            if is_small:
                subprocess.run(["umount", "--lazy", disk], check=False)

    def _make_chapter(self, number: int, folder: Path, is_small_disk: bool, stopped: Event) -> None:
        logs = self._home / f"c{number}-logs"
        for path in (folder / "suites", folder / "tmp", logs):
            path.mkdir(parents=True)
        chapter = Chapter(
            worker=self._number,
            number=number,
            site=Site(folder, folder / "store.db", logs, is_small_disk),
            endpoint=self._endpoint,
            ledger=Ledger(folder / "store.db"),
            auditor=Ledger(folder / "auditor.db"),
            has_store_command=self._plan.has_store_command,
        )
        with chapter.ledger.watching(), chapter.auditor.watching():
            is_sound = self._make_all(chapter, stopped)
        with self._totals.lock:
            self._totals.rows += len(chapter.ledger.snapshot())
        if is_sound:
            shutil.rmtree(logs)
        else:
            shutil.copytree(folder, self._home / f"c{number}")
        shutil.rmtree(folder)
        for label in chapter.repeats:
            self._endpoint.forget(label)

    def _make_all(self, chapter: Chapter, stopped: Event) -> bool:
        """Whether all operations of a chapter, and its end, were without a fault."""
        weights, disturbances = zip(*self._plan.disturbances, strict=True)
        for number in range(OPERATIONS_PER_CHAPTER):
            if stopped.is_set():
                break
            random = Random(f"{self._plan.seed}/{self._number}/{chapter.number}/{number}")
            kind, step = _choose(chapter, random)
            self._plan.between(chapter)
            if not self._make(chapter, kind, step, random.choices(disturbances, weights)[0], random):
                return False
        for step in _last_steps(chapter):
            if not self._make(chapter, "finish", step, NO_DISTURBANCE, Random(0)):
                return False
        faults = list(_unfinished_faults(chapter))
        if faults:
            self._tell(Attempt(chapter, "last", "finish", Step([]), NO_DISTURBANCE, []), faults)
        with self._totals.lock:
            self._totals.left_files.update(_left_files(chapter.site.folder))
        return not faults

    def _make(
        self, chapter: Chapter, kind: str, step: Step, disturbance: Disturbance, random: Random
    ) -> bool:
        """Make one step with one disturbance; whether nothing is wrong afterwards."""
        name = f"{chapter.next_serial():04}"
        before = {label: chapter.ledger.outputs(label) for label in chapter.repeats}
        children = [Child(step.words, chapter.site, name, disturbance.prefix)]
        if step.parallel is not None:
            children.append(Child(step.parallel, chapter.site, f"{name}b"))
        attempt = Attempt(chapter, name, kind, step, disturbance, children)
        usual_s = self._usual_s.get(kind, _USUAL_S)
        disturbance.apply(children[0], chapter.site, random, self._moment(attempt, random, usual_s))
        faults = list(_hung_faults(children))
        end_time = monotonic()
        if disturbance is NO_DISTURBANCE:
            self._usual_s[kind] = 0.7 * usual_s + 0.3 * (end_time - children[0].began)
        orphans = end_orphans(chapter.site)
        faults = faults or list(_exit_faults(attempt, end_time - children[0].began))
        faults += [*chapter.ledger.compare(), *chapter.auditor.compare()]
        for label, acknowledged in before.items():
            calls = self._calls(chapter, label)[chapter.checked_calls[label] :]
            chapter.checked_calls[label] += len(calls)
            faults += doubled_calls(calls, acknowledged)
            if not any(fault.kind == "hung" for fault in faults):
                faults += self._lost_answers(attempt, label, calls, end_time)
        if not faults and not attempt.is_cut_short and children[0].code in step.codes:
            faults += step.check(children[0])
        self._record(attempt, orphans)
        if faults:
            self._tell(attempt, faults)
        return not faults

    def _moment(self, attempt: Attempt, random: Random, usual_s: float) -> Moment:
        """Any moment of the time that its kind usually takes, or one soon after the first answer."""

        def wait() -> bool:
            chapter, child = attempt.chapter, attempt.children[0]
            if attempt.step.labels and random.random() < _SHARE_WHILE_ASKING:
                label = attempt.step.labels[0]
                while not any(
                    call.is_delivered for call in self._calls(chapter, label)[chapter.checked_calls[label] :]
                ):
                    if child.has_ended_within(_LOOK_EVERY_S):
                        return False
                return not child.has_ended_within(random.uniform(0, _ASKING_S))
            return not child.has_ended_within(random.uniform(0, usual_s))

        return wait

    def _calls(self, chapter: Chapter, label: str) -> list[Call]:
        """The calls of a label, which reached the endpoint or programs."""
        log = chapter.site.folder / "answers.log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("]")]  # a full disk cuts lines
        by_programs = [
            Call(token, repeat, arrived_at, "delivered", ended_at)
            for name, token, repeat, arrived_at, ended_at in entries
            if name == label
        ]
        return by_programs or list(self._endpoint.calls[label])

    def _lost_answers(
        self, attempt: Attempt, label: str, calls: list[Call], end_time: float
    ) -> Iterator[Fault]:
        """Answers that are not in the store, though delivered long before a kill, or there was none."""
        if not calls:
            return
        chapter, first = attempt.chapter, attempt.children[0]
        rows = [trial for run in chapter.runs() if run.label == label for trial in chapter.trials(run.id)]
        until = end_time
        if attempt.is_cut_short:
            until = first.signalled or 0.0
            until -= GRACE_S + _STALL_FACTOR * self._endpoint.stalled_s(until - _STALL_WINDOW_S)
        yield from lost_answers([call for call in calls if call.ended_at < until], rows)
        late = [call for call in calls if call.ended_at >= until]
        with self._totals.lock:
            self._totals.calls += len(calls)
            self._totals.answers += sum(call.is_delivered for call in calls)
            self._totals.unacknowledged += len(list(lost_answers(late, rows)))

    def _record(self, attempt: Attempt, orphans: list[str]) -> None:
        with self._totals.lock:
            self._totals.operations[attempt.kind] += 1
            if attempt.disturbance is not NO_DISTURBANCE:
                self._totals.disturbed[attempt.kind, attempt.disturbance.name] += 1
            self._totals.kills += sum(child.code == -signal.SIGKILL for child in attempt.children)
            self._totals.orphans[attempt.kind] += len(orphans)
        with (self._home / "commands.log").open("a", encoding="utf-8") as file:
            for child in attempt.children:
                end = f"{attempt.kind}, {attempt.disturbance.name}, exit code {child.code}"
                place = f"c{attempt.chapter.number}/{attempt.name}"
                file.write(f"{place} {child.began:.3f} ({end}) $ {child.command_line()}\n")
            file.writelines(f"    lived on: {words}\n" for words in orphans)

    def _tell(self, attempt: Attempt, faults: list[Fault]) -> None:
        chapter = attempt.chapter.number
        what = f"{attempt.kind}, disturbed by {attempt.disturbance.name}"
        source = f"worker {self._number}, chapter {chapter}, seed {self._plan.seed}"
        lines = [
            f"FAULT in operation {attempt.name} ({what}) of {source}:",
            *(f"  {fault.kind}: {fault.text}" for fault in faults[:5]),
            *[f"  and {len(faults) - 5} more"] * (len(faults) > 5),
            *(f"  $ {child.command_line()}  # exit code {child.code}" for child in attempt.children),
            f"  Kept: {self._home / f'c{chapter}'}. All commands: {self._home / 'commands.log'}",
        ]
        with self._totals.lock:
            self._totals.faults.update(fault.kind for fault in faults)
        self._report("\n".join(lines))


def _choose(chapter: Chapter, random: Random) -> tuple[str, Step]:
    """A random operation that is possible now."""
    weights = {kind: weight for kind, (weight, _) in OPERATIONS.items()}
    while True:
        kind = random.choices(list(weights), list(weights.values()))[0]
        step = OPERATIONS[kind][1](chapter, random)
        if step is not None:
            return kind, step


def _last_steps(chapter: Chapter) -> Iterator[Step]:
    """What brings every run of a chapter to its end, and the last checks of its store."""
    random = Random(0)
    for operation in (resume, retry_errors):
        for _ in range(_MAX_ROUNDS * len(chapter.runs())):
            step = operation(chapter, random)
            if step is None:
                break
            for label in step.labels:
                chapter.endpoint.moods[label] = CALM
            yield step
    for step in (collect_garbage(chapter, random), check_store(chapter, random)):
        if step is not None:
            yield step


def _unfinished_faults(chapter: Chapter) -> Iterator[Fault]:
    """Runs that are not what the answers imply, after all were resumed and their errors asked again."""
    for run in chapter.unfinished_runs():
        yield Fault("wrong", f"run {run.id} cannot be brought to its end")
    for run in chapter.runs_with_errors():
        yield Fault("wrong", f"run {run.id} keeps its errors")
    for run in chapter.finished_runs():
        if not chapter.has_errors(run.id):
            yield from truth_faults(chapter, run)


def _hung_faults(children: list[Child]) -> Iterator[Fault]:
    for child in children:
        if child.has_hung():
            yield Fault("hung", f"{child.command_line()}\n{child.complaint()[-4000:]}")


def _exit_faults(attempt: Attempt, took_s: float) -> Iterator[Fault]:
    """Exit codes that are not documented or not those of the step, and tracebacks."""
    codes_of_step = (attempt.step.codes, attempt.step.parallel_codes)
    for child, codes in zip(attempt.children, codes_of_step, strict=False):
        complaint = child.complaint()
        if child.signalled is not None and _is_before_proctor(child):
            continue
        if "Traceback (most recent call last)" in complaint or re.search(
            "Proctor broke|Internal error", complaint
        ):
            yield Fault("wrong", f"a traceback:\n{complaint[-3000:]}")
        elif attempt.disturbance.name == "full-disk":
            codes = _DOCUMENTED_CODES
        elif child.signalled is not None:
            codes = _ENDED_CODES
        elif attempt.disturbance.name == "lock" and took_s > _BUSY_S:
            codes = codes | {4}
        if child.code not in codes:
            yield Fault("wrong", f"exit code {child.code}, not one of {sorted(codes)}:\n{complaint[-1500:]}")


def _is_before_proctor(child: Child) -> bool:
    """Whether a signal came before Python had reached the first line of Proctor, which is powerless."""
    complaint = child.complaint()
    if "Traceback (most recent call last)" in complaint:
        return "/proctor/" not in complaint
    return child.code == -signal.SIGINT and not complaint and not child.output()


def _left_files(folder: Path) -> Iterator[str]:
    """The names of files that nobody needs, without what is random in them."""
    names = [path.name for path in folder.iterdir() if not _EXPECTED_NAME.fullmatch(path.name)]
    names += [f"tmp/{path.name}" for path in (folder / "tmp").iterdir()]
    for name in names:
        yield re.sub(r"(?<=tmp)\w{8}|\d+", "…", name)


def _mount(folder: Path) -> bool:
    """Make a folder a small disk of its own, where that is allowed."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "soak", str(folder)]
    return shutil.which("mount") is not None and (
        subprocess.run(words, check=False, capture_output=True).returncode == 0
    )
