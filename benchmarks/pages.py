"""How long the pages of a large run take, over HTTP against `proctor serve`.

Usage: python benchmarks/pages.py [--trials 100000] [--columns 8] [--letters 300] [--rounds 15]
           [--store ADDRESS] [--smoke]

A store gets as many runs as the grid has columns, each of so many trials with answers of so many letters, a
fifth of them held out, and 300 small runs besides. A first visit is followed until the run has been looked
through. Then each address is asked in turns by one visitor; its median and worst time are printed, the mean
of what the server computed for it, which says more on a machine that others share, and the time of the first
visit, until the page shows no progress any more. It exits with 1 when a median is above the goal. `--store`
names an empty store instead of a file that is removed afterwards; `--smoke` does it small.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlencode

from measure import proctor  # type: ignore[import-not-found]  # found beside this file when it is run
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import sent_digest
from proctor.model import (
    Assertion,
    Case,
    Message,
    Output,
    Run,
    Score,
    SplitRule,
    Suite,
    TargetSpec,
    Trial,
    Usage,
    Verdict,
)
from proctor.protocols import Store
from proctor.services.runs.reading.totals import encode_totals
from proctor.stores import open_store
from proctor.verdicts import Tally

TRIALS, COLUMNS, SMALL_RUNS = 100_000, 8, 300
MOST_MS = 300
GOAL = f"each median at most {MOST_MS} ms"
LARGE = "20260301-120000-aaaaaa"
WORDS = tuple(f"{word}{letter}" for word in ("river", "stone", "garden", "copper") for letter in "abcdefgh")
PAGES = {
    "the list of runs": "/runs",
    "the same by pass rate": "/runs?sort=-rate",
    "the run": "/runs/{run}",
    "what failed": "/runs/{run}?verdict=fail",
    "by latency": "/runs/{run}?sort=-latency",
    "a later page by cost": "/runs/{run}?sort=-cost&after={half}.0",
    "a text in no answer": "/runs/{run}?text=zebra",
    "a text in one answer": "/runs/{run}?text=case%20{half}%20of",
    "a text in most": "/runs/{run}?text=garden",
    "four filters and a text": "/runs/{run}?verdict=fail&tag=t2&category=c3&missed=contains&text=rivera"
    "&sort=-latency",
    "a chart": "/runs/{run}/charts/latency.svg",
    "a case within a filter": "/runs/{run}/cases/{half}?verdict=fail&sort=-latency",
    "the grid": "/grid?{columns}",
    "what differs in it": "/grid?{columns}&show=differ",
    "it by disagreement": "/grid?{columns}&sort=-disagreement",
    "a later page of it by cost": "/grid?{columns}&sort=-cost&after={half}",
    "broken with a tag": "/grid?{columns}&show=broken&tag=t2&sort=-latency",
    "a text in most of it": "/grid?{columns}&text=garden",
    "a text in one row of it": "/grid?{columns}&text=case%20{half}%20of",
    "whole answers of a row": "/grid?{columns}&open=1&open=2",
}


def main() -> None:
    """Measure, and print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--columns", type=int, default=COLUMNS, help="of the grid, at most 8")
    parser.add_argument("--letters", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--store", metavar="ADDRESS", help="an empty store, such as one in PostgreSQL")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    trials, small, rounds = options.trials, SMALL_RUNS, options.rounds
    columns = [LARGE, *(f"20260301-12000{number}-aaaaaa" for number in range(1, options.columns))]
    if options.smoke:
        trials, small, rounds = 400, 5, 2
    with tempfile.TemporaryDirectory() as folder:
        address = options.store or str(Path(folder) / "proctor.db")
        fill(address, trials, options.letters, small, columns)
        with run_server(address, folder) as (port, process):
            taken_s, visits = first_look(port)
            first_cpu_s = cpu_s(process)
            times_by_page = measure(port, process, trials, rounds, columns)
    print(f"{trials:,} trials of {options.letters:,} letters, {len(columns)} columns. Goal: {GOAL}.")
    print(f"  looked through in {taken_s:.2f} s (CPU {first_cpu_s:.2f} s), {visits} pages")
    for name, page in times_by_page.items():
        times_ms, cpu_ms = page.times_ms, page.cpu_s * 1000 / rounds
        figures = f"median {median(times_ms):4.0f} ms, worst {max(times_ms):4.0f} ms, CPU {cpu_ms:4.0f} ms"
        figures += f", first {page.first_ms:5.0f} ms"
        print(f"  {name:<26}  {figures}", flush=True)
    slow = [name for name, page in times_by_page.items() if median(page.times_ms) > MOST_MS]
    if slow and not options.smoke:
        raise SystemExit(f"Missed: {', '.join(slow)}.")


# --- a store -----------------------------------------------------------------------------------------------


def fill(address: str, trials: int, letters: int, small: int, columns: Sequence[str]) -> None:
    """A store with small runs and large ones."""
    choose, store = random.Random(7), open_store(address)
    small_runs = [f"20260228-{number:06}-bbbbbb" for number in range(small)]
    for name, cases, runs in (("small", 10, small_runs), ("large", trials, columns)):
        suite = save_suite(store, name, cases, choose)
        for run_id in runs:
            make(store, suite, run_id, letters, choose)
    store.close()


def save_suite(store: Store, name: str, count: int, choose: random.Random) -> Suite:
    """A suite of so many cases."""
    writer = store.open_suite_writer()
    for place in range(count):
        benchmark_case = case(place, choose)
        writer.add(benchmark_case, sent_digest(benchmark_case))
    digest = f"sha256:{len(name):064}"
    return writer.commit(
        Suite(name=name, dialect="proctor", digest=digest, case_count=count, split_rule=SplitRule())
    )


def case(place: int, choose: random.Random) -> Case:
    """One question of some 150 letters."""
    question = f"Case {place} of many: what do you know of {' '.join(choose.choices(WORDS, k=16))}?"
    word = WORDS[place % len(WORDS)]
    return Case(
        id=f"q{place:06}",
        input=(Message(role="user", content=question),),
        assertions=(Assertion(grader="contains", params={"words": [word]}),),
        tags=(f"t{place % 5}", *["long"] * (place % 3 == 0)),
        category=f"c{place % 7}",
    )


def make(store: Store, suite: Suite, run_id: str, letters: int, choose: random.Random) -> None:
    """A finished run of a suite, of which four trials in five passed."""
    began = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run = Run(
        id=run_id,
        group="g",
        suite=suite,
        target=TargetSpec(name="echo", kind="echo"),
        started_at=began,
        planned=suite.case_count,
    )
    store.add_run(run)
    tally = Tally.for_run(run)
    for place in range(suite.case_count):
        passed = choose.random() < 0.8
        outcome = Verdict.PASS if passed else Verdict.FAIL
        reason = "" if passed else "The answer does not contain the word."
        score = Score(grader="contains", name="contains", value=float(passed), outcome=outcome, reason=reason)
        answered_trial = trial(place, letters, score, began, choose)
        tally.add(answered_trial, case(place, choose))
        store.save_trial(run_id, answered_trial, outcome)
    run = replace(run, status="finished", finished_at=began + timedelta(minutes=20))
    store.update_run(run, totals=encode_totals(tally))


def trial(place: int, letters: int, score: Score, began: datetime, choose: random.Random) -> Trial:
    """One answer, graded."""
    output = Output(
        text=" ".join(choose.choices(WORDS, k=letters // 7)),
        latency_ms=choose.lognormvariate(6, 0.5),
        cost_usd=choose.random() / 1000,
        usage=Usage(input_tokens=50, output_tokens=letters // 4),
    )
    split = "holdout" if place % 5 == 4 else "dev"
    return Trial(
        case_id=f"q{place:06}",
        position=place,
        sent="sha256:0",
        split=split,
        output=output,
        scores=(score,),
        started_at=began,
    )


# --- a visitor ---------------------------------------------------------------------------------------------


class PageTimes(Struct):
    """What one page took."""

    times_ms: list[float]
    first_ms: float = 0.0
    """The first time, which may read what the others find in memory."""
    cpu_s: float = 0.0
    """Of the server, in all turns together."""


def cpu_s(process: int) -> float:
    """What a process has computed so far; 0 where the system does not tell it like Linux does."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def run_server(address: str, folder: str) -> Iterator[tuple[int, int]]:
    """A server over a store, working in a folder; its port and its process id."""
    command = [*proctor(), "serve", "--port", "0", "--store", address]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder, encoding="utf-8"
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert match, f"The server said {line!r}."
        yield int(match[1]), running.pid
    finally:
        running.terminate()
        running.wait()


class Visitor:
    """One browser."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cookie = ""

    def get(self, address: str) -> tuple[float, str]:
        """A page, and what it took in milliseconds."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        began = perf_counter()
        connection.request("GET", address, headers={"Cookie": self._cookie} if self._cookie else {})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8")
        taken_ms = (perf_counter() - began) * 1000
        connection.close()
        assert answer.status == 200, f"{address} answered {answer.status}: {text[:2000]}"
        cookie = answer.getheader("set-cookie")
        self._cookie = cookie.partition(";")[0] if cookie else self._cookie
        return taken_ms, text

    def follow(self, address: str) -> tuple[float, int]:
        """How long it takes until a page shows no progress any more, and how many pages were asked for."""
        began, visits = perf_counter(), 1
        while "data-live" in self.get(address)[1]:
            visits += 1
        return perf_counter() - began, visits


def first_look(port: int) -> tuple[float, int]:
    """How long it takes until all of the large run is in its page, and how many pages show how far it is."""
    return Visitor(port).follow(f"/runs/{LARGE}")


def measure(
    port: int, process: int, trials: int, rounds: int, columns: Sequence[str]
) -> dict[str, PageTimes]:
    """What each page takes, in turns, after a first visit."""
    visitor = Visitor(port)
    fields = {"run": LARGE, "half": trials // 2, "columns": urlencode({"run": columns}, doseq=True)}
    addresses = {name: page.format(**fields) for name, page in PAGES.items()}
    times_by_page = {name: PageTimes(times_ms=[]) for name in addresses}
    for turn in range(rounds + 1):
        for name, address in addresses.items():
            began = cpu_s(process)
            if not turn:
                times_by_page[name].first_ms = visitor.follow(address)[0] * 1000
            else:
                times_by_page[name].times_ms.append(visitor.get(address)[0])
                times_by_page[name].cpu_s += cpu_s(process) - began
    return times_by_page


if __name__ == "__main__":
    main()
