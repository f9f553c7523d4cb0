"""Two answers word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proctor.reports.word_diff import DiffSpan, WordDiff, common_blocks, diff_lines, diff_words


def mark_changes(diff: WordDiff) -> tuple[str, str]:
    """Returns both answers; brackets mark the words that only one of them has."""
    before, after = (
        "".join(f"[{piece.text}]" if piece.changed else piece.text for piece in pieces)
        for pieces in (diff.before, diff.after)
    )
    return before, after


def test_only_the_words_that_differ_are_marked() -> None:
    assert mark_changes(diff_words("The capital is Rome, I think.", "The capital is Paris, I think.")) == (
        "The capital is [Rome], I think.",
        "The capital is [Paris], I think.",
    )
    assert mark_changes(diff_words("a b", "a c b")) == ("a b", "a [c ]b")
    assert mark_changes(diff_words("", "new")) == ("", "[new]")
    assert mark_changes(diff_words("日本語は難しい", "日本語が難しい")) == (
        "日本語[は]難しい",
        "日本語[が]難しい",
    )


def test_punctuation_between_two_changes_belongs_to_the_change() -> None:
    assert mark_changes(diff_words("one, two three", "four, five three")) == (
        "[one, two] three",
        "[four, five] three",
    )


def test_a_variable_of_a_prompt_is_one_word() -> None:
    assert mark_changes(diff_words("Sort {{ ticket }} now.", "Sort {{ mail }} now.")) == (
        "Sort [{{ ticket }}] now.",
        "Sort [{{ mail }}] now.",
    )
    assert mark_changes(diff_words("{{ ticket", "{{ mail")) == ("{{ [ticket]", "{{ [mail]")


@given(st.text(alphabet="a{} _,\n", max_size=40), st.text(alphabet="a{} _,\n", max_size=40))
def test_the_pieces_make_up_both_prompts(before: str, after: str) -> None:
    pieces = diff_words(before, after)
    assert "".join(piece.text for piece in pieces.before) == before
    assert "".join(piece.text for piece in pieces.after) == after


def test_the_same_answers_are_the_same() -> None:
    diff = diff_words("as it is\n", "as it is\n")
    assert diff.is_same
    assert diff.before == (DiffSpan("as it is\n", False),)
    assert diff_words("", "").is_same
    assert not diff_words("a", "a ").is_same


def test_texts_that_differ_too_much_are_compared_by_line_and_then_as_a_whole() -> None:
    before = "".join(f"{n} a b c d e f\n" for n in range(40))
    after = "".join(f"{n} g h i j k l\n" if n % 2 else f"{n} a b c d e f\n" for n in range(40))
    lines = diff_words(before, after, steps=3_000)
    assert lines.by == "line"
    assert mark_changes(lines)[1].startswith("0 a b c d e f\n[1 g h i j k l\n]")
    assert diff_words(before, after, steps=10).by == "whole"
    assert diff_words(before, after).by == "word"


@given(st.text(alphabet="ab ,\n", max_size=30), st.text(alphabet="ab ,\n", max_size=30))
def test_the_pieces_make_up_both_answers(before: str, after: str) -> None:
    diff = diff_words(before, after)
    assert "".join(piece.text for piece in diff.before) == before
    assert "".join(piece.text for piece in diff.after) == after
    assert diff.is_same == (before == after)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_common_blocks_are_the_longest(before: list[str], after: list[str]) -> None:
    blocks = common_blocks(before, after, 10_000)
    assert blocks is not None
    for before_start, after_start, length in blocks:
        assert before[before_start : before_start + length] == after[after_start : after_start + length]
    longest = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for row, before_item in enumerate(before):
        for column, after_item in enumerate(after):
            best = max(longest[row][column + 1], longest[row + 1][column])
            longest[row + 1][column + 1] = longest[row][column] + 1 if before_item == after_item else best
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
