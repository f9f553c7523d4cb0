"""`proctor run --shard` and `proctor runs merge`: parts of a suite, and one run of them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proctor.shards import is_in_shard, parse_shard
from proctor.stores import open_store
from support.builders import make_case, write_lines
from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread

pytestmark = pytest.mark.slow

Shards = Callable[..., list[str]]
NOTES: list[str] = []
"""The texts sent to the model."""


@pytest.fixture
def shards(proctor: Proctor) -> Shards:
    """Runs every shard of a command with its own store, and returns the stores."""

    def run(*words: object, count: int = 3, left_out: tuple[int, ...] = ()) -> list[str]:
        stores = []
        for index in range(count):
            if index not in left_out:
                stores.append(f"s{index}.db")
                result = proctor("run", *words, "--shard", f"{index}/{count}", "--store", stores[-1])
                assert result.code == 0, result
        return stores

    return run


def test_the_shards_of_a_run_become_that_run(proctor: Proctor, half: str, shards: Shards) -> None:
    words = (half, "--target", "echo", "--repeat", 2, "--min-pass-rate", 0.6)
    whole = proctor("run", *words, "--json", "--store", "whole.db")
    stores = shards(*words, "--quiet")
    before = {path: sha256(Path(path).read_bytes()).digest() for path in stores}
    result = proctor("runs", "merge", *stores, "--store", "merged.db", "--json")
    run = result.run
    assert result.code == run["exit_code"] == whole.code == 1
    assert "shard" not in run
    assert len(run["merged_from"]) == 3
    varying = {"run", "group", "started_at", "finished_at", "latency_ms", "merged_from"}
    assert {name: value for name, value in run.items() if name not in varying} == {
        name: value for name, value in whole.run.items() if name not in varying
    }
    assert {path: sha256(Path(path).read_bytes()).digest() for path in stores} == before
    assert not [path.name for path in Path().iterdir() if path.name.endswith(("-wal", "-shm"))]


def test_a_shard_says_that_it_is_one_wherever_it_is_shown(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--shard", "1/3", "--min-pass-rate", 1)
    assert result.code == 0
    assert "This is shard 1 of 3. `proctor runs merge` makes one run of all shards" in result.out
    assert "The gate is not decided: this is shard 1 of 3" in result.out
    assert "Too few cases" not in result.err
    assert "(shard 1 of 3)" in proctor("runs", "list").out
    assert proctor("runs", "list", "--json").run["shard"] == "1/3"
    report = proctor("runs", "show", "last", "--json").run
    assert (report["shard"], report["exit_code"], report["gate"]["decision"]) == ("1/3", 0, "not shown")
    proctor("runs", "export", "last", "-o", "report.md")
    assert "shard 1 of 3" in Path("report.md").read_text(encoding="utf-8")


def test_a_shard_is_told_apart_when_it_is_resumed(proctor: Proctor, half: str) -> None:
    run = proctor("run", half, "--target", "echo", "--shard", "1/3", "--json").run["run"]
    result = proctor("run", f"--resume={run}", "--shard", "2/3")
    assert result.code == 4
    assert "--shard: the run has 1/3, this command sets 2/3" in result.err
    assert "--shard 2/3" in result.err
    assert proctor("run", f"--resume={run}", "--shard", "1/3").code == 0


def test_the_projects_file_may_name_a_shard(proctor: Proctor, half: str) -> None:
    Path("proctor.toml").write_text('shard = "0/3"\n', encoding="utf-8")
    assert proctor("run", half, "--target", "echo", "--json").run["shard"] == "0/3"
    Path("proctor.toml").write_text('shard = "3/3"\n', encoding="utf-8")
    result = proctor("run", half, "--target", "echo")
    assert result.code == 4
    assert "There is no shard 3/3" in result.err


def test_an_empty_shard_ends_well_and_the_merge_counts_it(
    proctor: Proctor, suite: Callable[..., str], shards: Shards
) -> None:
    tiny = suite(("a", "x", "x"), ("b", "y", "y"))
    empty = next(
        index
        for index in range(5)
        if not any(is_in_shard(make_case(n), parse_shard(f"{index}/5")) for n in "ab")
    )
    for words in ((), ("--min-pass-rate", 0.5), ("--quiet",), ("--json",)):
        result = proctor("run", tiny, "--target", "echo", "--shard", f"{empty}/5", "--store", "e.db", *words)
        assert result.code == 0
        if "--quiet" not in words:
            assert f"No case of s is in shard {empty} of 5, so no request is sent." in result.err + result.out
    stores = shards(tiny, "--target", "echo", count=5)
    result = proctor("runs", "merge", *stores, "--store", "merged.db", "--json")
    assert (result.code, result.run["total"], result.run["status"]) == (0, 2, "finished")
    # A selection without any case is an error in every shard.
    assert proctor("run", tiny, "--target", "echo", "--shard", "0/5", "--tag", "none").code == 5


def test_shards_of_several_targets_become_a_run_of_each(
    proctor: Proctor, half: str, shards: Shards, script: Any
) -> None:
    stores = shards(half, "--target", "echo", "--target", script(**{"t*": "no"}))
    result = proctor("runs", "merge", *stores, "--store", "merged.db", "--json")
    assert [(run["target"], run["total"], run["passed"]) for run in result.json["runs"]] == [
        ("echo", 10, 5),
        ("scripted:answers0.jsonl", 10, 5),
    ]
    assert len({run["group"] for run in result.json["runs"]}) == 1
    assert proctor("compare", result.json["runs"][0]["group"], "--store", "merged.db").code == 0


def test_shards_may_share_a_group_in_one_store(proctor: Proctor, half: str) -> None:
    for index in range(3):
        words = ("run", half, "--target", "echo", "--group", "g", "--shard", f"{index}/3")
        assert proctor(*words).code == 0
    result = proctor(*words)
    assert result.code == 4
    assert "The store already has a group or a run 'g'." in result.err
    assert proctor("run", half, "--target", "echo", "--group", "g", "--shard", "0/4").code == 4
    store = ".proctor/proctor.db"
    assert proctor("runs", "merge", store, "--json").run["total"] == 10
    assert proctor("runs", "merge", f"./{store}", "--store", store, "--json").run["total"] == 10


def test_a_merged_run_attests_to_the_claims_of_the_whole(proctor: Proctor, half: str, shards: Shards) -> None:
    words = (half, "--target", "echo", "--repeat", 2, "--holdout", 0.3)
    proctor("run", *words, "--store", "whole.db", "--quiet")
    stores = shards(*words, "--quiet")
    proctor("runs", "merge", *stores, "--store", "merged.db")
    statements = []
    for name in ("whole", "merged"):
        bundle = Path(f"{name}.bundle")
        assert proctor("attest", "last", "--store", f"{name}.db", "-o", bundle).code == 0
        verification = proctor("verify", bundle, "--json")
        assert (verification.code, len(verification.json["bundles"][0]["merged_from"])) == (
            0,
            3 * (name == "merged"),
        )
        assert ("merged     from 3 runs" in proctor("verify", bundle).out) == (name == "merged")
        payload = json.loads((bundle / "envelope.json").read_text(encoding="utf-8"))["payload"]
        predicate = json.loads(base64.b64decode(payload))["predicate"]
        own = predicate.pop("proctor_attestation")
        for field in ("run", "group", "started_at", "finished_at", "cases", "trials"):
            own.pop(field)
        predicate.pop("configuration")
        statements.append((predicate, own))
    assert statements[0] == statements[1]
    cases = [
        re.sub(r'"salt":"[^"]*"', "", (Path(f"{name}.bundle") / "suite.jsonl").read_text(encoding="utf-8"))
        for name in ("whole", "merged")
    ]
    assert cases[0] == cases[1]


def test_a_shard_is_not_attested(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--shard", "0/2", "--attest")
    assert (result.code, "a shard has only a part" in result.err) == (4, True)
    proctor("run", half, "--target", "echo", "--shard", "0/2")
    result = proctor("attest", "last")
    assert result.code == 4
    assert "is shard 0 of 2, and a bundle needs all cases. Merge all shards first" in result.err


class EchoingModel(JsonHandler):
    """Answers with the last text, and records it."""

    def handle_json(self, body: Any) -> None:
        text = body["messages"][-1]["content"]
        NOTES.append(text)
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        self.send_json({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})


def test_a_merged_run_with_gaps_is_resumed_with_exactly_what_is_missing(
    proctor: Proctor, half: str, shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    NOTES.clear()
    with serve_in_thread(EchoingModel) as server:
        target = f"openai:m@http://127.0.0.1:{server.server_port}/v1"
        words = (half, "--target", target, "--repeat", 2)
        stores = shards(*words, count=4, left_out=(2,))
        sent_before = list(NOTES)
        merged = proctor("runs", "merge", *stores, "--store", "merged.db")
        run = proctor("runs", "show", "last", "--store", "merged.db", "--json").run
        assert merged.code == 2
        assert "Shard 2 of 4 is missing." in merged.err
        assert f"Continue with: proctor run --resume={run['run']} --store merged.db" in merged.err
        assert sent_before == NOTES
        report = proctor("runs", "merge", *stores, "--store", "merged.db", "--json")
        assert report.run["notes"] == ["Shard 2 of 4 is missing."]
        result = proctor("run", f"--resume={run['run']}", "--store", "merged.db", "--json")
        assert (result.code, result.run["total"], result.run["status"]) == (1, 20, "finished")
        assert result.run["merged_from"] == run["merged_from"]
        missing = [f"say {n}" for n in range(10) if is_in_shard(make_case(f"t{n}"), parse_shard("2/4"))]
        assert sorted(NOTES[len(sent_before) :]) == sorted(2 * missing)
        # Merging the missing shard gives the same run.
        shards(*words, count=4, left_out=(0, 1, 3))
        again = proctor("runs", "merge", *stores, "s2.db", "--store", "other.db", "--json")
        assert (again.run["total"], again.run["passed"]) == (20, result.run["passed"])
        conflict = proctor("runs", "merge", "merged.db", "s2.db", "--store", "third.db")
        assert conflict.code == 4
        assert ", was run twice, with different answers in merged.db (run" in conflict.err
        assert "and in s2.db (run" in conflict.err


def test_runs_that_differ_are_listed_and_nothing_is_stored(proctor: Proctor, half: str) -> None:
    proctor("run", half, "--target", "echo", "--shard", "0/2", "--store", "a.db")
    proctor(
        "run",
        half,
        "--target",
        "echo",
        "--shard",
        "1/2",
        "--store",
        "b.db",
        "--repeat",
        3,
        "--temperature",
        1,
    )
    result = proctor("runs", "merge", "a.db", "b.db", "--store", "out.db")
    assert result.code == 4
    assert "--repeat: none in a.db; 3 in b.db" in result.err
    assert "--temperature: 0 in a.db; 1 in b.db" in result.err
    with closing(open_store("out.db")) as store:
        assert list(store.runs()) == []


@pytest.mark.parametrize("name", ["none.db", "empty.db", "suite.txt"])
def test_what_is_no_store_is_refused(proctor: Proctor, half: str, name: str) -> None:
    Path("empty.db").touch()
    Path("suite.txt").write_text("no store\n" * 40, encoding="utf-8")
    proctor("run", half, "--target", "echo", "--shard", "0/2", "--store", "a.db")
    result = proctor("runs", "merge", "a.db", name, "--store", "out.db", "--json")
    assert result.code == 4
    assert name in result.err
    assert ("Correct the path, or remove it." in result.err) == (name == "none.db")
    assert result.json["runs"] == []


def test_a_retried_shard_counts_instead_of_the_one_with_errors(
    proctor: Proctor, half: str, shards: Shards, script: Any
) -> None:
    target = script(**{f"t{n}": f"say {n}" for n in range(9)})
    stores = shards(half, "--target", target)
    wrong = next(s for s in stores if proctor("runs", "show", "last", "--store", s, "--json").run["errors"])
    with Path(target.removeprefix("scripted:")).open("a", encoding="utf-8") as file:
        file.write('\n{"t9": "say 9"}\n')
    run = proctor("runs", "list", "--store", wrong, "--json").run["run"]
    assert proctor("run", f"--retry-errors={run}", "--store", wrong).code == 0
    result = proctor("runs", "merge", *stores, "--store", "out.db", "--json")
    assert (result.run["errors"], result.run["passed"]) == (0, 5)
    # A run made from a merged run is not a merged run.
    for words in (("regrade", result.run["run"]), ("run", f"--retry-errors={result.run['run']}")):
        assert "merged_from" not in proctor(*words, "--store", "out.db", "--json").run


def test_an_input_of_a_read_only_folder_is_read(proctor: Proctor, half: str, shards: Shards) -> None:
    stores = shards(half, "--target", "echo")
    for path in stores:
        Path(path).chmod(0o444)
    assert proctor("runs", "merge", *stores, "--store", "out.db", "--json").run["total"] == 10


def test_a_python_run_takes_a_shard(suite: Callable[..., str]) -> None:
    import proctor

    rows = [{"id": f"t{n}", "input": str(n), "expected": "x"} for n in range(10)]
    run = proctor.run(rows, target="echo", store=None, shard="0/2")
    assert run.ok
    assert run.run.settings.selection.shard == parse_shard("0/2")
    assert 0 < run.total < 10
    with pytest.raises(proctor.UsageError, match="There is no shard 2/2"):
        proctor.run(rows, target="echo", store=None, shard="2/2")


def test_more_stores_are_merged_than_files_may_be_open(
    proctor: Proctor, folder: Path, shards: Shards
) -> None:
    resource = pytest.importorskip("resource")
    rows = [{"id": f"c{n}", "input": "x", "expected": "x", "scorer": "exact"} for n in range(60)]
    write_lines(folder / "s.jsonl", *rows)
    stores = shards("s.jsonl", "--target", "echo", "--quiet", count=30)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = len(list(Path("/dev/fd").iterdir()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 12, limits[1]))
        result = proctor("runs", "merge", *stores, "--store", "out.db", "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (result.code, result.run["total"], result.run["passed"]) == (0, 60, 60)
