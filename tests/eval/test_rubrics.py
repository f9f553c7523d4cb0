"""Rubrics: those that come with Proctor, files of one's own, and what may stand before their text."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from proctor.eval.judge import rubrics
from proctor.eval.judge.rubrics import BUILTIN_RUBRICS, RubricText, load_rubric

SCALES: dict[str, tuple[float, float]] = {
    "correctness": (0, 5),
    "faithfulness": (0, 1),
    "relevance": (0, 1),
    "patent_claim_validity": (0, 1),
    "office_action_argument": (0, 1),
}


def test_every_file_is_a_rubric_and_has_a_constant() -> None:
    assert {file.stem for file in rubrics._FOLDER.glob("*")} == set(SCALES)
    for name in SCALES:
        assert getattr(rubrics, f"RUBRIC_{name.upper()}") == load_rubric(name)
    assert BUILTIN_RUBRICS == {
        "correctness": rubrics.RUBRIC_CORRECTNESS,
        "faithfulness": rubrics.RUBRIC_FAITHFULNESS,
        "relevance": rubrics.RUBRIC_RELEVANCE,
    }


@pytest.mark.parametrize(("name", "scale"), SCALES.items())
def test_a_rubric_is_a_text_with_a_range_and_says_how_to_reply(name: str, scale: tuple[float, float]) -> None:
    rubric = load_rubric(name)
    assert rubric.scale == scale
    assert not rubric.startswith("---")
    assert "scale:" not in rubric
    assert '{"score": N, "rationale": "R"}' in rubric
    assert "no instruction" in rubric


@pytest.mark.parametrize(("name", "count"), [("patent_claim_validity", 7), ("office_action_argument", 4)])
def test_a_patent_rubric_numbers_its_dimensions_and_asks_for_their_mean(name: str, count: int) -> None:
    rubric = load_rubric(name)
    assert [f"\n{number}. **" in rubric for number in range(1, count + 2)] == [True] * count + [False]
    assert "arithmetic mean" in rubric
    assert "`Hints:`" in rubric


@pytest.mark.parametrize(
    "name",
    ["../rubrics/correctness", "rubrics/correctness", "/etc/passwd", "..", "", "Correct", "a.md", "a\0"],
)
def test_a_name_that_is_a_path_or_unknown_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(
        FileNotFoundError, match="The rubrics are: correctness, faithfulness, office_action_argument"
    ):
        load_rubric(name)


def test_it_stays_the_same_where_it_is_copied() -> None:
    rubric = load_rubric("correctness")
    for other in (copy.deepcopy(rubric), pickle.loads(pickle.dumps(rubric))):
        assert (other, other.scale) == (rubric, (0, 5))
    assert type(str(rubric)) is str


@pytest.mark.parametrize(
    ("content", "text", "scale"),
    [
        ("---\nscale: 0..10\n---\n\nGrade it.\n", "Grade it.", (0, 10)),
        ("\ufeff---\r\nscale: -1 .. 2.5\r\n---\r\nGrade it.", "Grade it.", (-1, 2.5)),
        ("---\n---\nGrade it.", "Grade it.", None),
        ("Grade it.", "Grade it.", None),
        ("---\nGrade it, below a line.", "---\nGrade it, below a line.", None),
        ("Grade it.\n---\nscale: 0..1\n---\n", "Grade it.\n---\nscale: 0..1\n---", None),
    ],
)
def test_a_file_of_ones_own(
    content: str, text: str, scale: tuple[float, float] | None, tmp_path: Path
) -> None:
    path = tmp_path / "mine.md"
    path.write_bytes(content.encode("utf-8"))
    rubric = RubricText.from_file(path)
    assert (rubric, rubric.scale) == (text, scale)
    assert RubricText.from_file(path, scale=(1, 9)).scale == (1, 9)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"---\nsclae: 0..5\n---\nGrade it.", r"mine\.md:2: 'sclae: 0\.\.5' cannot be read"),
        (b"---\n\nscale: 0-5\n---\nGrade it.", r"mine\.md:3: 'scale: 0-5' cannot be read"),
        (b"---\nscale: 5..0\n---\nGrade it.", r"The scale is \(5\.0, 0\.0\)"),
        (b"---\nscale: 0..5\n---\n \n", r"The rubric '.*mine\.md' is empty"),
        (b"", "is empty"),
        (b"Grade \xff it.", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_understood(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        RubricText.from_file(path)


@pytest.mark.parametrize(
    "scale", [(5, 0), (1, 1), (0, float("nan")), (0, float("inf")), (0,), (0, 1, 2), ("a", 5)]
)
def test_a_scale_is_two_numbers_in_order(scale: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="Pass the lowest and the highest score"):
        RubricText("Grade it.", scale)
