"""Memory of a run with large answers, and of every command that reads its store.

Usage: python benchmarks/large_answers.py [--answers 200] [--megabytes 10] [--only run,verify] [--smoke]

A server on loopback answers each question with so many megabytes of JSON. For each command the line has the
wall time and the peak resident memory of its process, children excluded. `--smoke` takes 4 answers of 1 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from measure import proctor  # type: ignore[import-not-found]  # beside this file

MAX_MIB = 300
"""The goal for the peak of `proctor run`."""
WORDS = b"the quick brown fox jumps over the lazy dog and says that "
HEAD = b'{"model":"large","choices":[{"index":0,"message":{"role":"assistant","content":"answer: '
TAIL = b'"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":2}}'
REPORTS = ("html", "md", "json", "jsonl", "csv", "xml")


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    answers, megabytes = (4, 1) if options.smoke else (options.answers, options.megabytes)
    only = frozenset(filter(None, options.only.split(",")))
    print(f"{answers:,} answers of {megabytes} MB. Goal: `run` at most {MAX_MIB} MiB.")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        os.environ["PROCTOR_KEYS"] = str(Path(folder) / "keys")
        peak_mib = measure(Path(folder), answers, megabytes, only)
    if peak_mib > MAX_MIB:
        raise SystemExit(f"Missed: `run` took {peak_mib:.0f} MiB.")


def measure(folder: Path, answers: int, megabytes: int, only: frozenset[str]) -> float:
    """Print what each command takes; the peak of `run`, in MiB."""
    suite = folder / "suite.jsonl"
    with suite.open("w", encoding="utf-8") as file:
        for place in range(answers):
            row = {"id": f"q{place}", "input": f"Question {place}", "expected": "answer"}
            file.write(json.dumps(row) + "\n")
    command = [sys.executable, __file__, "--serve", str(megabytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        target = f"openai:large@http://127.0.0.1:{int(server.stdout.readline())}/v1"
        store = ["--store", str(folder / "store.db")]
        peak_mib = report("run", [*proctor(), "run", str(suite), "--target", target, "-q", *store])
        server.communicate("")
    subprocess.run([*proctor(), "runs", "tag", "last", "first", *store], check=True, capture_output=True)
    bundle = str(folder / "bundle")
    commands = {
        "runs show": ["runs", "show", "last", *store],
        "runs show --case": ["runs", "show", "last", "--case", "q1", *store],
        **{
            f"export .{end}": ["runs", "export", "last", "-o", f"{folder}/r.{end}", *store] for end in REPORTS
        },
        "regrade": ["regrade", "last", "-q", *store],
        "compare": ["compare", "first", "last", *store],
        "attest": ["attest", "last", "-o", bundle, *store],
        "verify": ["verify", bundle],
    }
    for name, words in commands.items():
        if not only or name in only:
            report(name, [*proctor(), *words])
    return peak_mib


def report(name: str, command: list[str]) -> float:
    """Run a command, whose output is not kept, and print what it took; give its peak in MiB.

    Exit code 1 is that of a suite that failed.
    """
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s, peak_mib = perf_counter() - began, float(usage.ru_maxrss / 1024)
    failed = "" if process.returncode in (0, 1) else f"   exit code {process.returncode}"
    print(f"  {name:<18} {wall_s:7.1f} s {peak_mib:7.0f} MiB{failed}", flush=True)
    return peak_mib


async def serve(megabytes: int) -> None:
    """Answer every request with the same reply, until standard input ends."""
    size = megabytes * 1_000_000
    body = HEAD + (WORDS * (size // len(WORDS) + 1))[: size - len(HEAD) - len(TAIL)] + TAIL
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                length = request.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length or b"0"))
                writer.write(head)
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    main()
