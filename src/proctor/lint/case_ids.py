"""The ids of a suite: `similar-id` and `mixed-id-languages`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

from proctor.lint.findings import CaseLocation, Finding, quote_text

_SCRIPT_FAMILIES: Final = {"CJK": "East Asian", "HIRAGANA": "East Asian", "KATAKANA": "East Asian",
                       "HANGUL": "East Asian", "BOPOMOFO": "East Asian", "FULLWIDTH": "Latin"}  # fmt: skip
_WORD: Final = re.compile(r"[^\W\d_]+")


class CaseIdRule:
    """Checks the ids of a stream of cases."""

    def __init__(self) -> None:
        self._spots: dict[str, CaseLocation] = {}
        self._scripts: Counter[str] = Counter()
        self._first_spots: dict[str, CaseLocation] = {}
        self._numbered_cases: list[CaseLocation] = []
        self._count = 0

    def add(self, spot: CaseLocation, *, named: bool = True) -> Iterator[Finding]:
        """Yields findings on the next id; `named` says whether the id is the case's own."""
        self._count += 1
        first = self._spots.setdefault(_fold_id(spot.case), spot)
        if first is not spot and first.case != spot.case:
            message = (
                f"Test {quote_text(spot.case)} has nearly the same id as {quote_text(first.case)} at "
                f"{first.relative_to(spot)}: the ids differ only in upper and lower case or in white space. "
                f"Give the test another id."
            )
            yield Finding("similar-id", message, "id")
        if not named:
            self._numbered_cases.append(spot)
        elif spot.case.isascii():
            self._count_script("Latin", spot)
        else:
            yield from self._check_scripts(spot)

    def _check_scripts(self, spot: CaseLocation) -> Iterator[Finding]:
        words = [_scripts(word) for word in _WORD.findall(spot.case)]
        for scripts in words:
            for script in scripts:
                self._count_script(script, spot)
        mixed_scripts = next(
            (scripts for scripts in words if len(scripts) > 1 and "East Asian" not in scripts), None
        )
        if mixed_scripts is not None:
            message = (
                f"Test {quote_text(spot.case)} mixes scripts in its id: one word has "
                f"{' and '.join(mixed_scripts)} letters, and some of them look alike. Write the word in one "
                f"script."
            )
            yield Finding("mixed-id-languages", message, "id")

    def _count_script(self, script: str, spot: CaseLocation) -> None:
        self._scripts[script] += 1
        self._first_spots.setdefault(script, spot)

    def finish(self) -> Iterator[tuple[Finding, CaseLocation]]:
        """Yields findings on all ids together, each with the case where it shows."""
        if 0 < len(self._numbered_cases) < self._count:
            spot = self._numbered_cases[0]
            message = (
                f"The suite mixes two kinds of ids: {len(self._numbered_cases)} of {self._count} cases, "
                f"{quote_text(spot.case)} the first, are numbered because they have no id, and the others "
                f"have ids. A number changes when you insert a line; write an id for each case."
            )
            yield Finding("mixed-id-languages", message, "id"), spot
        if len(self._scripts) > 1:
            usual, _ = self._scripts.most_common(1)[0]
            for script, count in self._scripts.items():
                if script != usual:
                    spot = self._first_spots[script]
                    message = (
                        f"The suite mixes scripts in its ids: {count} of {self._count} cases, "
                        f"{quote_text(spot.case)} the first, have {script} letters in their ids, but most "
                        f"cases have {usual} letters. Write all ids in one script, so that they are easy to "
                        f"type and select."
                    )
                    yield Finding("mixed-id-languages", message, "id"), spot


def _fold_id(case_id: str) -> str:
    """Returns an id without what readers overlook: case, white space, and the width of letters."""
    if case_id.isascii():
        return "".join(case_id.lower().split())
    return "".join(unicodedata.normalize("NFKC", case_id).casefold().split())


def _scripts(word: str) -> list[str]:
    """Returns the scripts of a word's letters, as far as their names say."""
    scripts: dict[str, None] = {}
    for letter in word:
        name = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
        if name:
            scripts[_SCRIPT_FAMILIES.get(name, name.title())] = None
    return list(scripts)
