"""Two answers word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proctor.reports.word_diff import DiffSpan, WordDiff, common_blocks, diff_lines, diff_words


def shown(found: WordDiff) -> tuple[str, str]:
    """Both answers with what is only in one of them in brackets."""
    one, other = (
        "".join(f"[{piece.text}]" if piece.changed else piece.text for piece in pieces)
        for pieces in (found.before, found.after)
    )
    return one, other


def test_only_the_words_that_differ_are_marked() -> None:
    assert shown(diff_words("The capital is Rome, I think.", "The capital is Paris, I think.")) == (
        "The capital is [Rome], I think.",
        "The capital is [Paris], I think.",
    )
    assert shown(diff_words("a b", "a c b")) == ("a b", "a [c ]b")
    assert shown(diff_words("", "new")) == ("", "[new]")
    assert shown(diff_words("日本語は難しい", "日本語が難しい")) == ("日本語[は]難しい", "日本語[が]難しい")


def test_what_two_changes_have_between_them_and_is_no_word_is_no_likeness() -> None:
    assert shown(diff_words("one, two three", "four, five three")) == (
        "[one, two] three",
        "[four, five] three",
    )


def test_a_variable_of_a_prompt_is_one_word() -> None:
    assert shown(diff_words("Sort {{ ticket }} now.", "Sort {{ mail }} now.")) == (
        "Sort [{{ ticket }}] now.",
        "Sort [{{ mail }}] now.",
    )
    assert shown(diff_words("{{ ticket", "{{ mail")) == ("{{ [ticket]", "{{ [mail]")


@given(st.text(alphabet="a{} _,\n", max_size=40), st.text(alphabet="a{} _,\n", max_size=40))
def test_the_pieces_make_up_both_prompts(one: str, other: str) -> None:
    pieces = diff_words(one, other)
    assert "".join(piece.text for piece in pieces.before) == one
    assert "".join(piece.text for piece in pieces.after) == other


def test_the_same_answers_are_the_same() -> None:
    found = diff_words("as it is\n", "as it is\n")
    assert found.is_same
    assert found.before == (DiffSpan("as it is\n", False),)
    assert diff_words("", "").is_same
    assert not diff_words("a", "a ").is_same


def test_where_too_much_differs_lines_are_compared_and_then_nothing() -> None:
    one = "".join(f"{n} a b c d e f\n" for n in range(40))
    other = "".join(f"{n} g h i j k l\n" if n % 2 else f"{n} a b c d e f\n" for n in range(40))
    lines = diff_words(one, other, steps=3_000)
    assert lines.by == "line"
    assert shown(lines)[1].startswith("0 a b c d e f\n[1 g h i j k l\n]")
    assert diff_words(one, other, steps=10).by == "whole"
    assert diff_words(one, other).by == "word"


@given(st.text(alphabet="ab ,\n", max_size=30), st.text(alphabet="ab ,\n", max_size=30))
def test_the_pieces_make_up_both_answers(one: str, other: str) -> None:
    found = diff_words(one, other)
    assert "".join(piece.text for piece in found.before) == one
    assert "".join(piece.text for piece in found.after) == other
    assert found.is_same == (one == other)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_nothing_longer_is_common_to_both(one: list[str], other: list[str]) -> None:
    blocks = common_blocks(one, other, 10_000)
    assert blocks is not None
    for start, beside, length in blocks:
        assert one[start : start + length] == other[beside : beside + length]
    longest = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for row, left in enumerate(one):
        for column, right in enumerate(other):
            best = max(longest[row][column + 1], longest[row + 1][column])
            longest[row + 1][column + 1] = longest[row][column] + 1 if left == right else best
    assert sum(length for *_, length in blocks) == longest[-1][-1]


def test_lines_far_from_a_change_are_left_out() -> None:
    before = [f"line {number}" for number in range(20)]
    after = [*before[:10], "new", *before[11:]]
    assert diff_lines("\n".join(before), "\n".join(after), context=2) == [
        "…",
        " line 8",
        " line 9",
        "-line 10",
        "+new",
        " line 11",
        " line 12",
        "…",
    ]
    assert diff_lines("a\nb", "a\nb\nc") == [" a", " b", "+c"]
    assert diff_lines("", "a\nb") == ["+a", "+b"]


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")), st.integers(0, 60))
def test_lines_give_back_both_texts(before: list[str], after: list[str], steps: int) -> None:
    lines = diff_lines("\n".join(before), "\n".join(after), context=len(before) + len(after), steps=steps)
    assert [line[1:] for line in lines if line[0] in " -"] == before
    assert [line[1:] for line in lines if line[0] in " +"] == after
