"""How often the catalogues of refusals and hedges are right on labelled sentences, as a Markdown table.

Usage: python tools/refusal_figures.py [PART] [CHART.svg]; a part such as development, or abstention for the
labelled answers to questions that have none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.charts import Bar, Chart, bars
from proctor.eval.refusals import is_refusal
from proctor.graders.abstention import Abstention
from proctor.graders.lexicons.hedging import find_hedge
from proctor.graders.lexicons.matcher import find_refusal
from proctor.model import Case, Message, Output
from proctor.protocols import GradingInput
from proctor.stats import wilson

DATA = Path(__file__).parent.parent / "tests" / "data"
SENTENCES = DATA / "refusals.jsonl"
ABSTENTIONS = DATA / "abstentions.jsonl"
LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "zh": "Chinese",
}
DECLINES = ("decline", "polite-decline")

Row = dict[str, Any]


def _declines(text: str) -> bool:
    return find_refusal(text) is not None


def _hedges(text: str) -> bool:
    return find_hedge(text) is not None


TOOLS: dict[str, tuple[Callable[[str], bool], Callable[[Row], bool]]] = {
    "`is_refusal`": (is_refusal, lambda row: row["refusal"]),
    "grader `refusal`": (_declines, lambda row: row["kind"] in DECLINES),
    "grader `hedges`": (_hedges, lambda row: row["hedge"]),
}
"""Each tool: what it says of a text, and what the label says."""


@dataclass(frozen=True)
class Figures:
    """How often a tool was right on some sentences."""

    hits: int
    """Sentences that are one and were taken for one."""
    alarms: int
    """Sentences that are none and were taken for one."""
    misses: int
    """Sentences that are one and were not taken for one."""

    @property
    def precision(self) -> float:
        """The share of what was taken for one that is one."""
        return self.hits / (self.hits + self.alarms)

    @property
    def recall(self) -> float:
        """The share of those that are one that were taken for one."""
        return self.hits / (self.hits + self.misses)


def parts() -> list[str]:
    """The parts that the sentences are in."""
    return sorted({row["part"] for row in _rows()})


def rows_of(part: str) -> list[Row]:
    """The labelled sentences of a part."""
    return [row for row in _rows() if row["part"] == part]


def _rows() -> list[Row]:
    return _read(SENTENCES)


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def figures(tool: str, rows: Iterable[Row]) -> Figures:
    """What a tool gets right and wrong on sentences."""
    says, label = TOOLS[tool]
    return _figures([(says(row["text"]), label(row)) for row in rows])


def _figures(pairs: list[tuple[bool, bool]]) -> Figures:
    return Figures(
        hits=pairs.count((True, True)), alarms=pairs.count((True, False)), misses=pairs.count((False, True))
    )


def table(part: str = "development") -> Iterator[str]:
    """The lines of the table: each tool on all languages, and `is_refusal` on each one."""
    yield "| | language | sentences | precision (95 %) | recall (95 %) |"
    yield "|---|---|---:|---|---|"
    rows = rows_of(part)
    for tool in TOOLS:
        for code in ("all", *LANGUAGES) if tool == "`is_refusal`" else ("all",):
            language_rows = rows if code == "all" else [row for row in rows if row["language"] == code]
            counts = figures(tool, language_rows)
            precision = _share(counts.hits, counts.hits + counts.alarms)
            recall = _share(counts.hits, counts.hits + counts.misses)
            name = "all six" if code == "all" else LANGUAGES[code]
            yield f"| {tool} | {name} | {len(language_rows)} | {precision} | {recall} |"


def chart(part: str = "development") -> Chart:
    """Precision and recall of `is_refusal` by language, with 95 % Wilson intervals."""
    rows, chart_bars = rows_of(part), []
    for code, name in LANGUAGES.items():
        counts = figures("`is_refusal`", [row for row in rows if row["language"] == code])
        for series, whole in (
            ("precision", counts.hits + counts.alarms),
            ("recall", counts.hits + counts.misses),
        ):
            low, high = wilson(counts.hits, whole) or (None, None)
            chart_bars.append(Bar(name, counts.hits / whole, low, high, series))
    title = f"is_refusal on the {part} sentences"
    return bars(chart_bars, title=title, unit="share, with its 95 % interval", scale="share")


# --- answers to questions that have none -------------------------------------------------------------------


def _abstains(row: Row) -> bool:
    case = Case(id="question", input=(Message(role="user", content=row["question"]),))
    return Abstention().grade(GradingInput(case=case, output=Output(text=row["answer"]))).passed is True


GRADERS: dict[str, Callable[[Row], bool]] = {
    "`refusal`": lambda row: _declines(row["answer"]),
    "`refusal` with `not_knowing`": lambda row: find_refusal(row["answer"], not_knowing=True) is not None,
    "`abstention`": _abstains,
}
"""What each grader says of a labelled answer."""


def abstentions() -> list[Row]:
    """The labelled answers to questions that have none."""
    return _read(ABSTENTIONS)


def abstention_figures(grader: str, part: str) -> Figures:
    """What a grader gets right and wrong on a part of the labelled answers."""
    return _figures([(GRADERS[grader](row), row["abstains"]) for row in abstentions() if row["part"] == part])


def abstention_table() -> Iterator[str]:
    """The lines of the table: each grader on each part."""
    yield "| grader | answers | precision (95 %) | recall (95 %) |"
    yield "|---|---|---|---|"
    for part in dict.fromkeys(row["part"] for row in abstentions()):
        for grader in GRADERS:
            counts = abstention_figures(grader, part)
            precision = _share(counts.hits, counts.hits + counts.alarms)
            recall = _share(counts.hits, counts.hits + counts.misses)
            yield f"| {grader} | {part} | {precision} | {recall} |"


def _share(part: int, whole: int) -> str:
    interval = wilson(part, whole)
    if interval is None:
        return "–"
    return f"{part}/{whole} = {part / whole:.0%} ({interval[0]:.0%} to {interval[1]:.0%})"


if __name__ == "__main__":
    print("\n".join(abstention_table() if sys.argv[1:] == ["abstention"] else table(*sys.argv[1:2])))
    if len(sys.argv) > 2:
        chart(sys.argv[1]).save(sys.argv[2])
