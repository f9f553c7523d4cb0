"""Documents: how each block looks in each medium, and that no text is active in any."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proctor.model import Verdict
from proctor.reports.document import (
    Block,
    Bullets,
    Code,
    Column,
    Facts,
    Heading,
    Image,
    Paragraph,
    Preformatted,
    Rate,
    RateEntry,
    RateGrid,
    Strong,
    Table,
    TextDiff,
    render_markdown,
    render_terminal,
)
from proctor.reports.html_templates import make_environment
from proctor.safe_text import terminal_text
from support.hostile_texts import HOSTILE_TEXTS, html_faults, markdown_faults, terminal_faults


def in_terminal(*blocks: Block, width: int | None = None) -> str:
    return "".join(f"{line}\n" for line in render_terminal(blocks, width))


def in_markdown(*blocks: Block) -> str:
    return "".join(render_markdown(blocks))


def in_html(*blocks: Block) -> str:
    source = '{% import "document.html" as document %}{{ document.show(blocks) }}'
    return make_environment().from_string(source).render(blocks=blocks)


class Change:
    """A difference, as a cell has it."""

    def __init__(self, value: float | None, ci95: tuple[float, float] | None) -> None:
        self.value, self.ci95 = value, ci95
        self.unmeasured, self.bounds = 0, value and (value, value)


TABLE = Table(
    columns=(
        Column(width=6),
        Column("cases", "count"),
        Column("rate", "rate"),
        Column("took", "milliseconds"),
        Column("p", "p"),
    ),
    rows=[
        ("all", 1200, Rate(0.5, (0.25, 0.75), 1200), 12.3, 0.013),
        ("by tag", "", "", "", ""),
        ("  a | b", 0, Rate(None, None), None, None),
    ],
    notes=["Two rows."],
)


def test_a_table_is_drawn_on_a_terminal() -> None:
    assert in_terminal(TABLE).splitlines() == [
        "         cases    rate  0%    95% interval    100%             took  p",
        "all      1,200   50.0%  ······━━━━━━●━━━━━━━······  25–75%    12 ms  0.013",
        "by tag",
        "  a | b      0       –                              –             –  –",
        "Two rows.",
    ]


def test_a_table_is_a_table_in_markdown() -> None:
    assert in_markdown(TABLE).splitlines() == [
        "| | Cases | Rate | 95 % interval | Took | p |",
        "|---|--:|--:|---|--:|---|",
        "| all | 1,200 | 50.0% | 25–75% | 12 ms | 0.013 |",
        "| **by tag** | | | | | |",
        r"| a \| b | 0 | – | – | – | – |",
        "",
        "Two rows.",
    ]


def test_a_page_draws_rates_and_differences_on_one_axis() -> None:
    changes = [("a", Change(0.1, (-0.05, 0.25))), ("b", Change(None, None))]
    page = in_html(TABLE, Table(columns=(Column("case"), Column("change", "difference")), rows=changes))
    assert page.count("<svg") == 2
    assert '<th scope="col">0 to 100 %, with 95 % interval</th>' in page
    assert '<th scope="col">-30.0pp to +30.0pp, with 95 % interval</th>' in page
    assert '<p class="quiet small">Two rows.</p>' in page


def test_sentences_stand_together_on_a_terminal_and_apart_from_other_blocks() -> None:
    blocks = (Heading("T"), Paragraph("a"), Bullets(["b", "c"]), Paragraph("d"), Facts([("e", "f")], width=3))
    assert in_terminal(*blocks) == "T\n\na\nb\nc\nd\n\ne    f\n"
    assert in_markdown(*blocks) == "# T\n\na\n\n- b\n- c\n\nd\n\n| | |\n|---|---|\n| e | f |\n"


def test_a_block_may_be_for_one_medium() -> None:
    blocks = [Paragraph(name, only=name) for name in ("terminal", "markdown", "html")]
    assert in_terminal(*blocks) == "terminal\n"
    assert in_markdown(*blocks) == "markdown\n"
    assert in_html(*blocks).strip() == "<p>html</p>"


def test_parts_of_a_sentence_may_stand_out() -> None:
    sentence = Paragraph((Strong("3"), " of 4: see ", Code("a `b`"), "."))
    assert in_terminal(sentence) == "3 of 4: see a `b`.\n"
    assert in_markdown(sentence) == "**3** of 4: see `` a `b` ``.\n"
    assert "<p><b>3</b> of 4: see <code>a `b`</code>.</p>" in in_html(sentence)


def test_columns_without_text_and_headings_without_names_are_left_out() -> None:
    verdicts = Table(columns=(Column(kind="verdict", width=5), Column(), Column()), rows=[("fail", "", "a")])
    assert in_terminal(verdicts) == "FAIL   a\n"
    assert in_terminal(Table(columns=(Column("a"),), rows=[])) == ""


NAMES = ("模型", "model with quite a name", "n")
WIDE = Table(
    columns=[Column(), *(Column(name, "number", is_verbatim=True) for name in NAMES)],
    rows=[("é e\u0301 一", "1", "2", "3"), ("a", "10", "20", "30")],
)


def test_columns_line_up_whatever_the_letters() -> None:
    assert in_terminal(WIDE).splitlines() == [
        "        模型  model with quite a name   n",
        "é e\u0301 一     1                        2   3",
        "a         10                       20  30",
    ]


def test_on_a_terminal_columns_that_do_not_fit_stand_below() -> None:
    assert in_terminal(WIDE, width=35).splitlines() == [
        "        模型",
        "é e\u0301 一     1",
        "a         10",
        "",
        "        model with quite a name   n",
        "é e\u0301 一                        2   3",
        "a                            20  30",
    ]
    long = Table(columns=[Column(), Column("a" * 30 + "b" * 30, is_verbatim=True)], rows=[("x", "1")])
    assert in_terminal(long, width=80).splitlines()[0].strip() == f"{'a' * 20}…{'b' * 19}"
    assert in_terminal(long).splitlines()[0].strip() == "a" * 30 + "b" * 30


def _every_block(text: str) -> Iterator[Block]:
    """Yields each block with a text everywhere that a text can be."""
    yield Heading(text)
    yield from (Paragraph(text, style=style) for style in ("plain", "strong", "note", "warning"))
    yield Paragraph((text, Strong(text), Code(text), f" {text} "))
    yield Bullets([text, (Code(text), text)])
    yield Facts([(text, text), (text, (Strong(text),))])
    yield Preformatted([text])
    yield Image(text, "badge.svg")
    columns = (
        Column(text, is_verbatim=True, max_width=40),
        Column(kind="run"),
        Column(kind="number"),
        Column(kind="verdict"),
        Column(kind="rate"),
    )
    rate = Rate(0.5, (0.2, 0.8))
    yield Table(
        columns=columns, rows=[(f"  {text}", text, text, Verdict.FAIL, rate)], caption=text, notes=[text]
    )
    yield RateGrid(corner="prompt", columns=[text], rows=[(text, [RateEntry(rate, [text])])], notes=[text])
    yield TextDiff(before=text, after=f"{text}\n{text}!", names=(text, text))


GRID = RateGrid(
    corner="prompt",
    columns=["small", "a | b"],
    rows=[
        ("terse", [RateEntry(Rate(0.5, (0.25, 0.75), 8), ["$0.10", "p50 12 ms"]), None]),
        ("steps", [RateEntry(Rate(1.0, (0.7, 1.0), 6, 2, (0.75, 1.0))), RateEntry(Rate(None, None))]),
    ],
    notes=["A note."],
)


def test_a_grid_has_several_lines_for_each_row_on_a_terminal() -> None:
    assert in_terminal(GRID).splitlines() == [
        "prompt  small                        a | b",
        "terse   50.0% 25–75%                 –",
        "        n 8 · $0.10 · p50 12 ms",
        "steps   100.0% 70–100%               – –",
        "        n 6                          n 0",
        "        not measured 2: 75.0–100.0%",
        "A note.",
    ]


def test_a_grid_is_a_table_in_markdown() -> None:
    assert in_markdown(GRID).splitlines() == [
        r"| Prompt | small | a \| b |",
        "|---|---|---|",
        "| terse | 50.0% 25–75%, n 8 · \\$0.10 · p50 12 ms | – |",
        "| steps | 100.0% 70–100%, n 6, not measured 2: 75.0–100.0% | – –, n 0 |",
        "",
        "A note.",
    ]


def test_a_grid_is_drawn_in_html() -> None:
    page = in_html(GRID)
    assert page.count("<svg") == 2
    assert "$0.10 · p50 12 ms" in page


DIFF = TextDiff(before="Be brief.\nAnswer.", after="Be kind.\nAnswer.", names=("terse", "kind"))


def test_two_texts_are_lines_or_words() -> None:
    lines = ["--- terse", "+++ kind", "-Be brief.", "+Be kind.", " Answer."]
    assert in_terminal(DIFF).splitlines() == lines
    assert in_markdown(DIFF).splitlines() == ["```diff", *lines, "```"]
    page = in_html(DIFF)
    assert "Be <del>brief</del>.\nAnswer." in page
    assert "Be <ins>kind</ins>.\nAnswer." in page


@pytest.mark.parametrize(
    ("render", "faults"),
    [
        pytest.param(lambda *blocks: terminal_text(in_terminal(*blocks)), terminal_faults, id="terminal"),
        pytest.param(in_markdown, markdown_faults, id="markdown"),
        pytest.param(in_html, html_faults, id="html"),
    ],
)
def test_no_text_is_active_in_any_medium(
    render: Callable[..., str], faults: Callable[[str], Iterator[str]]
) -> None:
    faults_by_text = {text: list(faults(render(*_every_block(text)))) for text in HOSTILE_TEXTS}
    assert {text: problems for text, problems in faults_by_text.items() if problems} == {}


def test_every_block_is_among_those_with_hostile_texts() -> None:
    assert {type(block) for block in _every_block("x")} == set(Block.__subclasses__())
