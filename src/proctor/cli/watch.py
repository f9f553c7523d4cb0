"""`proctor run --watch`: runs again when a file changes that the run has read.

Each run is a process of its own, so that changed modules are imported again. It logs the files that it reads,
each as it was before it was read; this process compares them with the disk, twice a second. A change stops a
run: its calls under way end, and their answers are reused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic

from proctor.cli.echo import echo_err
from proctor.cli.options import open_store, store_location
from proctor.cli.run_and_report import FILE_LOG_VARIABLE
from proctor.codec import encode
from proctor.errors import StoreError, UsageError
from proctor.plurals import join_names, pluralize
from proctor.protocols import Store
from proctor.services.file_log import (
    FileLogContents,
    Listing,
    LoggedRun,
    file_state,
    list_files,
    read_log,
    write_log,
)

POLL_S = 0.5
"""How often the files are compared with the log; less often if that takes more than a tenth of the time."""
_SETTLE_S = 0.2
"""A change counts once nothing else changes for this long."""
_MAX_ABSENCE_S = 1.0
"""How long a file may be gone while an editor replaces it."""
_PROCESS_POLL_S = 0.05
_MAX_NAMES = 3
_MAX_OWN_CHANGES = 2
"""A file that changes during this many runs in a row is taken to be written by them."""


def watch_runs(arguments: Sequence[str], store: str | None, outputs: Sequence[str], *, quiet: bool) -> int:
    """Runs a command whenever its files change, until Ctrl-C; returns the exit code of the last run.

    Args:
        arguments: the arguments of `proctor`, without `--watch`.
        store: the value of `--store`.
        outputs: files that the run writes, which are not watched.
        quiet: print errors and warnings only.

    Raises:
        UsageError: the store is in memory.
    """
    if not store_location(store).is_durable:
        raise UsageError(
            "--watch reuses the answers of earlier runs, which a store in memory does not keep. Name a "
            "file with --store."
        )
    with tempfile.TemporaryDirectory(prefix="proctor-", ignore_cleanup_errors=True) as folder:
        return _Watch(arguments, store, outputs, Path(folder, "files.json"), quiet=quiet).run()


class _Watch:
    """The runs of one command, one after the other."""

    def __init__(
        self,
        arguments: Sequence[str],
        store: str | None,
        outputs: Sequence[str],
        log: Path,
        *,
        quiet: bool,
    ) -> None:
        self._command = [sys.executable, "-m", "proctor", *arguments]
        self._store = store
        self._log = log
        self._quiet = quiet
        self._stop_count = 0
        """How many signals to stop have arrived."""
        self._wake = SimpleQueue[None]()
        """Gets an item for each of them; a signal handler may put items into such a queue at any moment."""
        self._known = FileLogContents(ignored=[os.path.abspath(path) for path in outputs])  # noqa: PTH100
        self._own_changes = Counter[str]()
        """In how many runs in a row a file has changed."""
        self._notes: list[str] = []
        self._contents: dict[tuple[str, str], str] = {}
        """The digest of the cases of the last run of each suite and target."""

    def run(self) -> int:
        """Runs until a signal, or until there is nothing to watch; returns the last exit code.

        If the first run is refused because the command itself is wrong, watching ends: no file can change
        that.
        """
        self._catch_signals()
        is_first = True
        while True:
            code, changes = self._run_once()
            if self._is_stopped() or not self._has_files() or (is_first and self._known.is_refused):
                return code
            is_first = False
            if not changes:
                self._say_what_is_watched()
                changes = self._wait_for_changes()
                self._own_changes.clear()
                if self._is_stopped():
                    return code
            self._say(f"\nChanged: {self._format_names(changes)}. Running again.")

    def _has_files(self) -> bool:
        """Returns whether there is anything to watch; there is not if no suite was found at the start."""
        known = self._known
        return any(known.files.values()) or any(listing.names for listing in known.listings)

    def _run_once(self) -> tuple[int, list[str]]:
        """Runs the command; returns its exit code, and what changed meanwhile."""
        write_log(self._log, FileLogContents(ignored=self._known.ignored))
        before = self._known = _refresh(self._known)
        process = subprocess.Popen(  # noqa: S603  # the command that the user typed
            self._command,
            stdin=subprocess.DEVNULL,
            # A module that is changed twice within a second must not be taken from a cache.
            env={**os.environ, FILE_LOG_VARIABLE: str(self._log), "PYTHONDONTWRITEBYTECODE": "1"},
            process_group=0 if os.name == "posix" else None,
        )
        changes = self._supervise(process, before)
        was_cut_short = bool(changes)
        code = process.wait()
        self._read_log(before)
        if not changes and not self._is_stopped():
            self._say_what_changed(self._known.runs)
            changes = self._find_settled_changes()
        self._note_own_changes(changes)
        if was_cut_short:  # to be completed, even if what changed is no longer watched
            return code, changes
        return code, [path for path in changes if path not in self._known.ignored]

    def _supervise(self, process: subprocess.Popen[bytes], before: FileLogContents) -> list[str]:
        """Waits for a run to end; stops it for a signal, or a change, which is returned."""
        forwarded, changes, next_scan = 0, list[str](), monotonic() + POLL_S
        while process.poll() is None:
            if self._stop_count > forwarded:
                forwarded = self._stop_count
                if sys.platform != "win32":  # there the console has sent it to both
                    process.send_signal(signal.SIGINT)
            if not changes and not forwarded and monotonic() >= next_scan:
                began = monotonic()
                self._read_log(before)
                changes = self._find_settled_changes()
                next_scan = monotonic() + max(POLL_S, 10 * (monotonic() - began))
                if changes:
                    _finish_calls(process)
                    self._say(f"Changed: {self._format_names(changes)}. Waiting for requests in progress.")
            self._wait(_PROCESS_POLL_S)
        return changes

    def _wait_for_changes(self) -> list[str]:
        """Waits for a change or a signal; returns what changed."""
        while not self._is_stopped():
            began = monotonic()
            if changes := self._find_settled_changes():
                return changes
            self._wait(max(POLL_S, 10 * (monotonic() - began)))
        return []

    def _find_settled_changes(self) -> list[str]:
        """Returns what has changed since it was read, once an editor has finished; empty for nothing."""
        changes = _find_changes(self._known)
        if not changes:
            return []
        began = monotonic()
        while not self._is_stopped():
            states = [(path, file_state(path)) for path in changes]
            self._wait(_SETTLE_S)
            changes, last_states = _find_changes(self._known), states
            is_absent = any(
                state is None and self._known.files.get(path) is not None for path, state in last_states
            )
            if is_absent and monotonic() - began < _MAX_ABSENCE_S:
                continue
            if last_states == [(path, file_state(path)) for path in changes]:
                return changes
        return []

    def _read_log(self, before: FileLogContents) -> None:
        """Takes the log of the run; if the run did not read everything, adds what was known when it began."""
        contents = read_log(self._log)
        contents.ignored = before.ignored
        if not contents.runs:  # it ended early, or is still under way
            contents.files = before.files | contents.files
            keys = {(listing.folder, listing.pattern) for listing in contents.listings}
            contents.listings += [
                listing for listing in before.listings if (listing.folder, listing.pattern) not in keys
            ]
            contents.notes = contents.notes or before.notes
        self._known = contents

    def _note_own_changes(self, changes: Sequence[str]) -> None:
        """Stops watching what changes during each run: the run itself writes it."""
        self._own_changes = Counter({path: self._own_changes[path] + 1 for path in changes})
        for path, count in self._own_changes.items():
            if count >= _MAX_OWN_CHANGES:
                name = os.path.relpath(path)
                echo_err(
                    f"proctor: warning: {name} changes during each run, so the run itself seems to "
                    "write it. It is no longer watched."
                )
                self._known.ignored.append(path)
                self._known.files.pop(path, None)

    # --- messages --------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if not self._quiet:
            for part in line.split("\n"):
                echo_err(part)

    def _format_names(self, paths: Sequence[str]) -> str:
        return join_names([os.path.relpath(path) for path in paths], _MAX_NAMES)

    def _say_what_is_watched(self) -> None:
        count = sum(state is not None for state in self._known.files.values())
        self._say(f"Watching {pluralize(count, 'file')}. Press Ctrl-C to end.")
        for note in self._known.notes:
            if note not in self._notes:
                self._notes.append(note)
                self._say(f"Not watched: {note}.")

    def _say_what_changed(self, runs: Sequence[LoggedRun]) -> None:
        """Prints how many cases of each suite changed, and how many answers were reused."""
        for run in runs:
            key = run.suite, run.target
            parts = []
            if (old := self._contents.get(key)) is not None and not self._quiet:
                parts = self._count_case_changes(old, run.content)
            self._contents[key] = run.content
            parts += [f"{pluralize(run.asked, 'request')} sent", f"{pluralize(run.reused, 'answer')} reused"]
            name = f"{run.suite} on {run.target}: " if len(runs) > 1 else ""
            self._say(f"{name}{', '.join(parts)}.")

    def _count_case_changes(self, old: str, new: str) -> list[str]:
        if old == new:
            return ["no case changed"]
        try:
            with open_store(self._store) as store:
                before, after = _read_cases(store, old), _read_cases(store, new)
        except StoreError:
            return []
        counts = {
            "changed": sum(before[name] != body for name, body in after.items() if name in before),
            "added": len(after.keys() - before.keys()),
            "removed": len(before.keys() - after.keys()),
        }
        return [f"{pluralize(count, 'case')} {what}" for what, count in counts.items() if count] or [
            "no case changed"
        ]

    # --- signals ---------------------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        """Lets signals end the watching; the run under way gets them from here."""

        def stop(_number: int, _frame: object) -> None:
            self._stop_count += 1
            self._wake.put(None)

        numbers = [signal.SIGINT, signal.SIGTERM]
        if sys.platform != "win32":
            numbers.append(signal.SIGHUP)
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, stop)

    def _is_stopped(self) -> bool:
        return self._stop_count > 0

    def _wait(self, seconds: float) -> None:
        with suppress(Empty):
            self._wake.get(timeout=seconds)


def _finish_calls(process: subprocess.Popen[bytes]) -> None:
    """Stops a run so that its calls under way end; on Windows it ends at once, with what is stored."""
    if sys.platform == "win32":
        process.terminate()
    else:
        process.send_signal(signal.SIGUSR1)


def _refresh(known: FileLogContents) -> FileLogContents:
    """Returns the files and listings as they are now."""
    return FileLogContents(
        files={path: file_state(path) for path in known.files},
        listings=[
            Listing(listing.folder, listing.pattern, list_files(listing.folder, listing.pattern))
            for listing in known.listings
        ],
        notes=known.notes,
        ignored=known.ignored,
    )


def _find_changes(known: FileLogContents) -> list[str]:
    """Returns the files that are not as they were, and those that a listing has gained or lost."""
    changes = [path for path, state in known.files.items() if file_state(path) != state]
    for listing in known.listings:
        names = list_files(listing.folder, listing.pattern)
        if names != listing.names:
            changes += sorted(set(names).symmetric_difference(listing.names))
    return [path for path in dict.fromkeys(changes) if path not in known.ignored]


def _read_cases(store: Store, content: str) -> dict[str, bytes]:
    return {stored_case.case.id: encode(stored_case.case) for stored_case in store.cases(content)}
