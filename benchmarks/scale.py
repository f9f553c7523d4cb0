"""One suite run four ways: on one machine, in shards, over PostgreSQL, and by Ray over PostgreSQL.

Usage: python benchmarks/scale.py [--cases 20000] [--ways local,shards,postgres,ray] [--smoke]

All ways must have the same verdicts, totals, digests and claims; the program fails if they differ. It starts
a PostgreSQL server and a Ray cluster of its own. CPU and memory are those of all processes of a way:
Proctor's, Ray's, and in brackets the database server's. `--smoke` runs few cases: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from measure import proctor  # type: ignore[import-not-found]  # found beside this file when it is run
from process_tree import Meter, TreeUsage, list_children  # type: ignore[import-not-found]
from server import start_server  # type: ignore[import-not-found]
from sums import write_suite  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.postgresql import PostgresServer

SHARDS = 4
CONCURRENCY = 64


def main() -> None:
    """Runs the suite in each way, prints a line for each, and compares their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--ways", default="local,shards,postgres,ray")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    database = PostgresServer(options=("max_connections=200",))
    database.start()
    try:
        with tempfile.TemporaryDirectory() as folder, start_server(0) as server:
            suite = write_suite(300 if options.smoke else options.cases, Path(folder))
            results = {}
            for way in options.ways.split(","):
                store = _new_store(way, Path(folder), database)
                usage, server_usage = _measure(WAYS[way], suite, server.base, store, database)
                results[way] = _read_result(store, Path(folder) / f"{way}.zip")
                print(
                    f"{way:<9} wall {usage.wall_s:6.2f} s   CPU {usage.cpu_s:6.2f} s "
                    f"({server_usage.cpu_s:5.2f})   peak {usage.peak_mib:5.0f} MiB "
                    f"({server_usage.peak_mib:4.0f})   {results[way]['totals']['passed']:,} passed",
                    flush=True,
                )
            _compare(results)
    finally:
        database.stop()


def _new_store(way: str, folder: Path, database: PostgresServer) -> str:
    if way in ("local", "shards"):
        return str(folder / f"{way}.db")
    address = database.address(schema=f"scale_{way}")
    _run("store", "migrate", "--store", address)
    return address


def _measure(
    run_way: Callable[[Path, str, str], None], suite: Path, base: str, store: str, database: PostgresServer
) -> tuple[TreeUsage, TreeUsage]:
    meters = Meter(os.getpid(), without=list_children(os.getpid())), Meter(database.pid)
    began = perf_counter()
    run_way(suite, base, store)
    wall_s = perf_counter() - began
    usage, server_usage = (meter.stop(wall_s) for meter in meters)
    return usage, server_usage


def run_local(suite: Path, base: str, store: str) -> None:
    """One process, one file; over PostgreSQL the same with another store."""
    _run("run", str(suite), *_target(base), "--store", store)


def run_shards(suite: Path, base: str, store: str) -> None:
    """Four processes at once, each with a store of its own, which are merged."""
    stores = [f"{store}.{number}" for number in range(SHARDS)]
    shards = [
        subprocess.Popen(
            [
                *proctor(),
                "run",
                str(suite),
                *_target(base),
                "-q",
                f"--shard={number}/{SHARDS}",
                "--store",
                shard_store,
            ]
        )
        for number, shard_store in enumerate(stores)
    ]
    assert [shard.wait() for shard in shards] == [0] * SHARDS
    _run("runs", "merge", *stores, "--store", store)


def run_ray(suite: Path, base: str, store: str) -> None:
    """A cluster on this machine, whose workers write to PostgreSQL."""
    _run("run", str(suite), *_target(base), "--engine", "ray", "--store", store)


WAYS = {"local": run_local, "shards": run_shards, "postgres": run_local, "ray": run_ray}


def _target(base: str) -> tuple[str, ...]:
    return ("--target", f"openai:bench@{base}", "--concurrency", str(CONCURRENCY))


def _run(*words: str) -> str:
    process = subprocess.run([*proctor(), *words], capture_output=True, encoding="utf-8", check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}: {process.stderr}")
    return process.stdout


def _read_result(store: str, bundle: Path) -> dict[str, Any]:
    """Returns what must be equal: totals, and the claims, digests and verdicts of the run's bundle."""
    (totals,) = json.loads(_run("runs", "show", "last", "--json", "--store", store))["runs"]
    _run("attest", "last", "--store", store, "-o", str(bundle))
    _run("verify", str(bundle))
    with zipfile.ZipFile(bundle) as files:
        envelope = json.loads(files.read("envelope.json"))
        predicate = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
        verdicts = sha256()
        for line in files.read("trials.jsonl").splitlines():
            record = json.loads(line)
            trial = record["trial"]
            row = (trial["position"], trial.get("repeat", 0), record["verdict"], trial["output"]["text"])
            verdicts.update(json.dumps(row).encode("utf-8"))
    attestation = predicate["proctor_attestation"]
    return {
        "totals": {name: totals[name] for name in ("passed", "failed", "errors", "unscored", "cost_usd")},
        "claims": attestation["claims"],
        "digests": [attestation["suite"]["digest"], attestation["target"]],
        "verdicts": verdicts.hexdigest(),
    }


def _compare(results: dict[str, dict[str, Any]]) -> None:
    first = next(iter(results))
    for way, result in results.items():
        for name, value in result.items():
            if value != results[first][name]:
                raise SystemExit(f"The {name} of {way} differ from those of {first}: {value}")
    print(f"Equal verdicts, totals, digests and claims: {', '.join(results)}.")


if __name__ == "__main__":
    main()
