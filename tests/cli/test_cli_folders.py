"""Folders of suites on the command line: published folders, and folders with other files in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Proctor

TIERS = {"cheap": 10, "comprehensive": 75, "moderate": 25}


@pytest.fixture
def published(folder: Path) -> Path:
    """Three suites with the names of the built-in suites, and a manifest with wrong estimates."""
    place = folder / "v1.0"
    place.mkdir()
    manifest = '[suite]\nversion = "v1.0"\ncreated = "2026-02-10"\n'
    for tier, count in TIERS.items():
        rows = [
            {
                "id": f"{tier}-{number}",
                "category": "factual",
                "input": f"Say {number}.",
                "ideal": f"Say {number}",
                "assertion": {"type": "contains"},
                "metadata": {"difficulty": "easy", "tokens_est": 33},
            }
            for number in range(count)
        ]
        (place / f"{tier}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        manifest += f'[tiers.{tier}]\nfile = "{tier}.jsonl"\ntest_count = {count}\nestimated_tokens = 350\n'
    (place / "manifest.toml").write_text(manifest, encoding="utf-8")
    return place


def test_a_published_folder_with_wrong_estimates_runs_as_it_stands(proctor: Proctor, published: Path) -> None:
    result = proctor("run", published, "--target", "echo", "--json")
    assert result.code == 0
    assert {run["suite"]: run["passed"] for run in result.json["runs"]} == TIERS
    assert "cheap.jsonl:1: warning: `tokens_est` sums to 330; the manifest says 350." in result.err


@pytest.mark.slow
def test_a_path_a_bare_name_and_a_built_in_name_each_mean_what_they_say(
    proctor: Proctor, published: Path
) -> None:
    def suite(word: object) -> tuple[str, bool]:
        result = proctor("run", word, "--target", "echo", "--json")
        message = (
            "'cheap' means the suite cheap v1 in the store here. For the built-in suite, write "
            "`builtin:cheap`."
        )
        return result.run["suite"], message in result.err.splitlines()

    assert suite("cheap") == ("builtin:cheap", False)
    assert suite(published / "cheap.jsonl") == ("cheap", False)
    assert suite("cheap") == ("cheap", True)
    assert suite("builtin:cheap") == ("builtin:cheap", False)
    hashes = {word: proctor("hash", word).out.split()[0] for word in ("cheap", "builtin:cheap")}
    assert hashes["cheap"] == proctor("hash", published / "cheap.jsonl").out.split()[0]
    assert hashes["cheap"] != hashes["builtin:cheap"]
    validation = proctor("validate", "cheap")
    assert (validation.code, "write `builtin:cheap`" in validation.err) == (4, True)
    assert proctor("validate", "builtin:cheap").code == 0


@pytest.mark.parametrize("command", [("run", "--target", "echo"), ("validate",)])
def test_a_mixed_folder_names_what_it_skips_and_strict_refuses_it(
    proctor: Proctor, folder: Path, suite: Callable[..., str], command: tuple[str, ...]
) -> None:
    suite(("a", "x", "x"), name="all/deep/a.jsonl")
    suite(("n", "x", "x"), name="all/node_modules/n.jsonl")
    (folder / "all/package.json").write_text('{"name": "x"}', encoding="utf-8")
    (folder / "all/README").write_text("x", encoding="utf-8")
    result = proctor(*command, "all", "--json")
    assert result.code == 0
    assert len(result.json.get("runs") or result.json["files"]) == 1
    line = "proctor: warning: Skipped 1 file that no suite format recognises: all/package.json."
    assert result.err.splitlines()[0] == line
    strict = proctor(*command, "all", "--strict", "--json")
    errors = strict.json.get("errors") or strict.json["files"][1]["errors"]
    assert (strict.code, [error["code"] for error in errors]) == (4, ["unknown-dialect"])
