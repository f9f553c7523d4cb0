"""Does everything to Proctor at once, for hours, and compares its stores with a ledger of its own.

Usage: python tools/soak.py --hours 1, or --minutes 2; docs/explanation/soak.md says how to read it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from random import SystemRandom
from threading import Event
from time import monotonic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.soak_parts.commands import DISTURBANCES, NO_DISTURBANCE
from tools.soak_parts.endpoint import Endpoint
from tools.soak_parts.worker import Plan, Totals, Worker

KINDS = ("lost", "doubled", "hung", "wrong")
_LINE_EVERY_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 where nothing was lost, doubled, hung or wrong, and no process lived on."""
    options = _parse(arguments)
    keeps_folder = options.folder is not None
    folder = Path(options.folder or tempfile.mkdtemp(prefix="soak-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    without = {*options.without, *(["clock-back"] if shutil.which("cc") is None else [])}
    disturbances = tuple(row for row in DISTURBANCES if row[1].name not in without)
    plan = Plan(options.seed, folder, disturbances, has_store_command=_has_store_command())
    duration_s = options.hours * 3600 + options.minutes * 60
    print(f"Soaking for {duration_s:,.0f} s with seed {plan.seed} and {options.workers} workers in {folder}")
    totals = soak(plan, options.workers, duration_s)
    print("\n".join(table(totals, plan.seed)))
    is_faulty = bool(totals.faults or totals.orphans.total())
    if not keeps_folder and not is_faulty:
        shutil.rmtree(folder)
    return 1 if is_faulty else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--folder", help="for stores and logs; a new one by default")
    parser.add_argument("--workers", type=int, default=2, help="each has a store of its own")
    names = [disturbance.name for _, disturbance in DISTURBANCES if disturbance is not NO_DISTURBANCE]
    parser.add_argument("--without", choices=names, action="append", default=[], help="do not disturb so")
    options = parser.parse_args(arguments)
    if not options.hours and not options.minutes:
        parser.error("Say how long, with --hours or --minutes.")
    return options


def _has_store_command() -> bool:
    words = [sys.executable, "-m", "proctor", "store", "--help"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def soak(plan: Plan, workers: int, duration_s: float) -> Totals:
    """Let workers work for so long; SIGINT and SIGTERM end it early."""
    totals, stopped, endpoint = Totals(), Event(), Endpoint(plan.seed)
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda *_: stopped.set()) for number in numbers}
    endpoint.start()
    try:
        with ThreadPoolExecutor(workers) as pool:
            futures = [
                pool.submit(Worker(number, plan, endpoint, totals, _report).work, stopped)
                for number in range(workers)
            ]
            _watch(futures, stopped, totals, duration_s)
            for future in futures:
                future.result()
    finally:
        endpoint.stop()
        totals.connections, totals.tricks = endpoint.connections, endpoint.tricks
        for number, handler in previous.items():
            signal.signal(number, handler)
    return totals


def _watch(futures: Sequence[Future[None]], stopped: Event, totals: Totals, duration_s: float) -> None:
    """Print a line now and then; when the time is over, wait until every worker has finished its store."""
    began = next_line = monotonic()
    while not all(future.done() for future in futures):
        if monotonic() >= began + duration_s or any(future.done() for future in futures):
            stopped.set()
        if monotonic() >= next_line:
            print(f"{monotonic() - began:6.0f} s  {progress(totals)}", flush=True)
            next_line += _LINE_EVERY_S
        wait(futures, timeout=0.2)


def _report(text: str) -> None:
    print(text, flush=True)


def progress(totals: Totals) -> str:
    """One line of what was done and found."""
    faults = "  ".join(f"{kind} {totals.faults[kind]}" for kind in KINDS)
    work = f"{totals.operations.total():,} operations  {totals.kills:,} kills  {totals.answers:,} answers"
    return f"{work}  {faults}  orphans {totals.orphans.total()}"


def table(totals: Totals, seed: int) -> list[str]:
    """What was done, by kind, and what was found."""
    names = [disturbance.name for _, disturbance in DISTURBANCES if disturbance is not NO_DISTURBANCE]
    width = max(len(kind) for kind in totals.operations) if totals.operations else 0
    lines = ["", "  ".join(["operation".ljust(width), "  done", *names])]
    for kind, count in sorted(totals.operations.items()):
        cells = [str(totals.disturbed[kind, name]).rjust(len(name)) for name in names]
        lines.append("  ".join([kind.ljust(width), f"{count:6,}", *cells]))
    lines += ["", f"seed {seed}: {progress(totals)}"]
    lines += [f"{totals.rows:,} rows were acknowledged."]
    lines += [f"{totals.calls:,} requests arrived, and {totals.answers:,} answers to them were delivered."]
    lines += [f"With judges, {totals.tricks.total():,} requests came on {totals.connections:,} connections."]
    tricks = [f"{name or 'plain'} {count:,}" for name, count in sorted(totals.tricks.items())]
    lines += [f"They were answered so: {', '.join(tricks)}."]
    lines += [
        f"{totals.unacknowledged} answers were sent within 1 s of a kill and are lost, which is allowed."
    ]
    lines += [f"left behind: {name} {count} times" for name, count in totals.left_files.most_common()]
    return lines


if __name__ == "__main__":
    sys.exit(main())
