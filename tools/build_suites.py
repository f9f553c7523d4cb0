"""A folder of built-in suites → the same folder with its computed numbers brought up to date.

It rewrites `metadata.tokens_est` in every line of every tier and every computed field of `manifest.toml`:
counts, token sums, costs, hashes, categories, assertion types. It writes no case: prompts, answers and the
descriptions in the manifest are kept as their author wrote them. Run it after every edit::

    python tools/build_suites.py            # bring src/proctor/suites/v1.0 up to date
    python tools/build_suites.py --check    # only say whether it is (exit code 1: it is not)
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from proctor.codec import hash_rows

FOLDER = Path(__file__).resolve().parent.parent / "src" / "proctor" / "suites" / "v1.0"
TIERS = ("cheap", "moderate", "comprehensive")

CHARACTERS_PER_TOKEN = 4
ANSWER_TOKENS = {"easy": 32, "medium": 64, "hard": 128}
"""Tokens that an answer is allowed, by the case's difficulty."""
INPUT_USD, OUTPUT_USD = 0.15, 0.60
"""US dollars per million tokens of the model that `COST_MODEL` names."""
COST_MODEL = (
    f"gpt-4o-mini at its list price of 2024-07-18: {INPUT_USD:.2f} USD per million input tokens and "
    f"{OUTPUT_USD:.2f} USD per million output tokens. A prompt counts one token for every "
    f"{CHARACTERS_PER_TOKEN} characters begun; an answer counts {ANSWER_TOKENS['easy']} tokens when easy, "
    f"{ANSWER_TOKENS['medium']} when medium, {ANSWER_TOKENS['hard']} when hard. "
    "What judges cost is not counted."
)

Row = dict[str, Any]


def input_tokens(row: Row) -> int:
    """Tokens of the case's prompt: the characters of all its messages over four, rounded up."""
    question = row["input"]
    contents = [question] if isinstance(question, str) else [message["content"] for message in question]
    return -(-sum(map(len, contents)) // CHARACTERS_PER_TOKEN)


def answer_tokens(row: Row) -> int:
    """Tokens allowed for the case's answer."""
    return ANSWER_TOKENS[row["metadata"]["difficulty"]]


def tier_text(rows: list[Row]) -> str:
    """The tier's JSON Lines with `tokens_est` recomputed; `rows` are changed in place."""
    for row in rows:
        row["metadata"]["tokens_est"] = input_tokens(row) + answer_tokens(row)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tier_table(name: str, description: str, rows: list[Row]) -> Row:
    """What the manifest says of one tier."""
    dollars = sum(input_tokens(row) * INPUT_USD + answer_tokens(row) * OUTPUT_USD for row in rows) / 1e6
    return {
        "file": f"{name}.jsonl",
        "test_count": len(rows),
        "estimated_cost_usd": round(dollars, 6),
        "estimated_tokens": sum(row["metadata"]["tokens_est"] for row in rows),
        "hash": hash_rows(rows),
        "description": description,
    }


def toml_value(value: str | float | list[str]) -> str:
    """A value as TOML; a JSON string or array of strings is also a TOML one."""
    return f"{value:.6f}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def manifest_text(manifest: Row, tiers: dict[str, list[Row]]) -> str:
    """The manifest with its computed fields anew and its written ones (`suite`, descriptions) kept."""
    every = [row for rows in tiers.values() for row in rows]
    tables = {"suite": manifest["suite"]}
    for name, rows in tiers.items():
        tables[f"tiers.{name}"] = tier_table(name, manifest["tiers"][name]["description"], rows)
    tables["metadata"] = {
        "categories": list(dict.fromkeys(row["category"] for row in every)),
        "assertion_types": sorted({row["assertion"]["type"] for row in every}),
        "cost_model": COST_MODEL,
    }
    blocks = [
        "\n".join([f"[{head}]", *(f"{key} = {toml_value(value)}" for key, value in table.items())])
        for head, table in tables.items()
    ]
    return "\n\n".join(blocks) + "\n"


def rebuilt(folder: Path) -> dict[Path, str]:
    """What every file of the folder should hold, by its path; writes nothing."""
    manifest_path = folder / "manifest.toml"
    manifest = tomllib.loads(manifest_path.read_text(encoding="utf-8"))
    texts: dict[Path, str] = {}
    tiers: dict[str, list[Row]] = {}
    for name in TIERS:
        path = folder / f"{name}.jsonl"
        tiers[name] = [
            json.loads(line) for line in path.read_bytes().decode("utf-8").split("\n") if line.strip()
        ]
        texts[path] = tier_text(tiers[name])
    texts[manifest_path] = manifest_text(manifest, tiers)
    return texts


def main(argv: list[str] | None = None) -> int:
    """Bring the folder up to date, or say which of its files are not."""
    parser = argparse.ArgumentParser(description="Recompute the numbers of the built-in suites.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a file is out of date"
    )
    arguments = parser.parse_args(argv)
    stale = {
        path: text
        for path, text in rebuilt(arguments.folder).items()
        if path.read_bytes() != text.encode("utf-8")
    }
    for path, text in stale.items():
        print(f"{path} {'is out of date' if arguments.check else 'was brought up to date'}.")
        if not arguments.check:
            path.write_bytes(text.encode("utf-8"))
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
