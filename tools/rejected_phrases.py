"""Lists phrases that no colleague would say, in what users read.

Usage: python tools/rejected_phrases.py [--limit N] [PATH ...]

It reads the README, the pages of docs/, and src/proctor: help texts, messages, docstrings (the string
constants) and templates. Code in Markdown is skipped. With --limit it fails above N.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REJECTED = {
    r"\bask(?:s|ed|ing)?\b(?! for\b)": "call, run, send, request",
    r"\bnobody (?:is|was|could)\b": "no request is sent",
    r"\bwhom\b": "the model, agent or program",
    r"\blooks? at (?:this|the|a) holdout\b|\blook \d|\b\d+ looks?\b(?!-)": "holdout access",
    r"\bsealed\b": "hidden",
    r"\btaken over\b": "reused from",
    r"(?<!same )\bas (?:first|before)\b(?! (?:the|a|it|any|you)\b)": "same as the previous run",
    r"\b(?:set|put|left|leaves?|leaving) aside\b": "excluded",
    r"\bc[ao]me to\b": "verdict, result, total",
    r"\bjudge rules?\b": "aggregation",
    r"\bmatrix\b": "grid",
    r"\bmost calls at once\b|\bso often\b": "maximum concurrent requests, votes per answer",
    r"\banew\b": "again",
    r"\bso many\b": "at most N",
    r"\bsuch as it is\b": "",
    r"\bgone on with\b|\bgo(?:es)? on with\b": "resume",
    r"\bnot begun\b|\bbegun\b": "not started",
    r"\bdid not pass\b": "failed",
    r"\bhow it was made\b|\basked with\b": "settings, parameters",
    r"\bto make it again\b|\bthe same in a terminal\b": "re-run, command line",
    r"\bsaid here\b|\bmay be said\b|\bis said\b": "set, written",
    r"\bis told\b|\bare told\b|\bnot told\b": "is reported, is listed",
    r"\bwhat becomes of\b|\bbecame of\b": "what happens to",
    r"\bof more one reads\b": "",
    r"\bbrings? along\b|\bsaid of\b|\bheld against\b": "",
    r"\bit takes \d|\bwhat it takes\b": "it needs",
    r"\bwhose (?:reason|sentence)s? says?\b": "",
    r"\bnone of its own\b": "",
    r"\bis there none\b|\bwhere there (?:is|are) none\b": "if there is none",
    r"\bwithout (?:more|further)\b(?! \w)": "",
}
DATA = (
    *("graders/lexicons", "suites"),
    *(
        f"graders/judged/{name}.py"
        for name in ("instructions", "prompt_sections", "rubric", "score", "yes_no")
    ),
    "conformance/vocabulary.py",
)
"""What answers and cases contain and what is sent to models: no words for users, and fixed by digests."""
PATTERN = re.compile(
    "|".join(f"(?P<p{index}>{pattern})" for index, pattern in enumerate(REJECTED)), re.IGNORECASE
)
FENCE = re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
TAG = re.compile(
    r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL
)


def main() -> None:
    """Print each phrase with its place and what to write instead."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=int, help="fail if there are more")
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    count = 0
    places = [path.resolve() for path in arguments.paths] or [ROOT]
    for path in user_facing_files():
        if not any(path.is_relative_to(place) for place in places):
            continue
        for line, phrase, instead in phrases(path):
            count += 1
            hint = f"; write {instead}" if instead else ""
            print(f"{path.relative_to(ROOT)}:{line}: {phrase!r}{hint}")
    print(f"{count} rejected phrases in user-facing text.")
    if arguments.limit is not None and count > arguments.limit:
        sys.exit(f"At most {arguments.limit} are allowed.")


def user_facing_files() -> Iterator[Path]:
    """The files that users read, or whose texts they see."""
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    source = ROOT / "src" / "proctor"
    endings = (".py", ".html", ".toml", ".yaml")
    for path in sorted(path for path in source.rglob("*") if path.suffix in endings):
        if not any(path.is_relative_to(source / folder) for folder in DATA):
            yield path


def phrases(path: Path) -> Iterator[tuple[int, str, str]]:
    """Each rejected phrase of a file: its line, itself, and what to write instead."""
    for line, text in texts(path):
        for match in PATTERN.finditer(text):
            instead = list(REJECTED.values())[int(str(match.lastgroup)[1:])]
            yield line + text.count("\n", 0, match.start()), match[0], instead


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What a user may read of a file, with the line on which it begins."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, CODE.sub("", FENCE.sub(_blank, content))
    elif path.suffix == ".html":
        yield 1, TAG.sub(_blank, content)
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, CODE.sub("", node.value)
    else:
        yield 1, content


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


if __name__ == "__main__":
    main()
