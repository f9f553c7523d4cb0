"""Counts names that do not say what a thing is: participles, pronouns and `x_of` for a function.

Usage: python tools/name_share.py [--list] [PATH …]; the default path is src/proctor. A name counts at each
binding: an assignment, a parameter, a loop, `with … as`, a function or a class. `--list` prints each file
with its words. Exits with 1 if the share is above MAX_SHARE.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MAX_SHARE = 0.02
"""Ten admired packages (starlette, httpx, litestar, pytest, click …) have 0.0 to 1.2 %."""
_WORDS = """
one ones each another rest either neither both it them these those whose which whom nobody anybody somebody
everybody everyone nothing something anything everything here there aside beside beyond elsewhere nowhere
found said told kept wanted given shown made known seen taken held asked answered begun gone done came come
left lost meant named put sent sought spent stood thought written drawn chosen looked marked moved opened
ordered paired parsed picked placed planned printed quoted reached refused related removed renamed rendered
reported sealed served settled stated stored titled traced trusted turned unpacked packed used verified
weighed woven filled masked unmasked hidden gathered heard hit joined listed loaded lowered matched measured
mixed compared checked copied counted cut decided declared described dropped dumped ended entered fitted
followed forgotten fetched grown guessed handed lacking lack standing staying leading going coming telling
saying asking doing making finding keeping lending lodging reaching casting taking giving showing seeing
"""
WORDS = frozenset(_WORDS.split())


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields each bound name with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node.lineno


def is_vague(name: str) -> bool:
    """Whether the name is a bare participle or pronoun, or a function called `x_of`."""
    word = name.strip("_").lower()
    return word in WORDS or word.endswith("_of")


def main() -> int:
    """Prints the share; returns 1 if it is above MAX_SHARE."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("src/proctor")])
    parser.add_argument("--list", action="store_true", help="print each file with the words it has")
    options = parser.parse_args()
    total, vague = 0, 0
    words: Counter[str] = Counter()
    for root in options.paths:
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            in_file: Counter[str] = Counter()
            for name, _line in bindings(ast.parse(path.read_text(encoding="utf-8"))):
                total += 1
                if is_vague(name):
                    in_file[name] += 1
            vague += in_file.total()
            words.update(in_file)
            if options.list and in_file:
                print(f"{path}: " + ", ".join(f"{name} {n}" for name, n in in_file.most_common()))
    print(f"{vague} of {total} names are participles, pronouns or x_of: {vague / max(total, 1):.1%}")
    print("most: " + ", ".join(f"{name} {n}" for name, n in words.most_common(12)))
    return int(vague > MAX_SHARE * total)


if __name__ == "__main__":
    sys.exit(main())
