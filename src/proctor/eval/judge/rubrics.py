"""Rubrics, the instructions of a judge: those that come with Proctor, and files of your own.

A rubric is a Markdown file. It may begin with a line `---`, a line `scale: LOW..HIGH` and a line `---`; these
give the range of scores and are not shown to the judge. The rest is the judge's system message.
"""

from __future__ import annotations

import re
from pathlib import Path

Scale = tuple[float, float]
"""The least and the greatest score, both of them possible."""

_FOLDER = Path(__file__).parents[2] / "rubrics"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_SCALE = re.compile(r"(-?\d+(?:\.\d+)?) *\.\. *(-?\d+(?:\.\d+)?)")


class RubricText(str):
    """The text of a rubric with the range of its scores; otherwise a plain `str`."""

    scale: Scale | None
    """The least and the greatest score; None if the rubric does not give them."""

    def __new__(cls, text: str, scale: Scale | None = None) -> RubricText:
        """Makes a rubric.

        Args:
            text: the system message of the judge.
            scale: the least and the greatest score; others are refused. None lets every finite score pass.

        Raises:
            ValueError: the scale is not a range.
        """
        rubric = super().__new__(cls, text)
        rubric.scale = None if scale is None else check_scale(scale)
        return rubric

    @classmethod
    def from_file(cls, path: str | Path, scale: Scale | None = None) -> RubricText:
        """Reads a rubric of your own from a Markdown file in UTF-8.

        Args:
            path: the file, which may begin with `---`, `scale: 0..5`, `---`.
            scale: instead of the file's own.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not UTF-8, is empty, or has an invalid head.
        """
        try:
            content = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"The rubric {str(path)!r} is not UTF-8: {error}. Save it as UTF-8.") from None
        text, file_scale = _split_front_matter(content, str(path))
        return cls(text, file_scale if scale is None else scale)


def check_scale(scale: Scale) -> Scale:
    """Returns the scale as two floats.

    Raises:
        ValueError: the scale is no pair of finite numbers of which the first is less than the second.
    """
    try:
        low, high = (float(end) for end in scale)
    except (TypeError, ValueError):
        low = high = 0.0
    if not float("-inf") < low < high < float("inf"):
        raise ValueError(f"The scale is {scale!r}. Pass the lowest and the highest score, such as (0, 5).")
    return low, high


def load_rubric(name: str) -> RubricText:
    """Reads a rubric that comes with Proctor, with its `scale`.

    For other files use `RubricText.from_file(path)`.

    Args:
        name: without folder and ending, such as "patent_claim_validity".

    Raises:
        FileNotFoundError: there is no rubric of that name; a path is never a name.
    """
    path = _FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        names = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.md")))
        raise FileNotFoundError(
            f"There is no rubric {name!r}. The rubrics are: {names}. Read your own file with "
            "proctor.eval.judge.rubrics.RubricText.from_file(path)."
        )
    return RubricText.from_file(path)


def _split_front_matter(content: str, path: str) -> tuple[str, Scale | None]:
    """Returns the text without its head, and the scale."""
    head = _FRONT_MATTER.match(content)
    text = (content[head.end() :] if head else content).strip()
    if not text:
        raise ValueError(f"The rubric {path!r} is empty. Write the grading instructions for the judge.")
    scale: Scale | None = None
    for number, line in enumerate(head[1].splitlines() if head else (), 2):
        key, _, value = line.partition(":")
        match = _SCALE.fullmatch(value.strip()) if key.strip() == "scale" else None
        if match:
            scale = check_scale((float(match[1]), float(match[2])))
        elif line.strip():
            raise ValueError(
                f"{path}:{number}: {line!r} cannot be read. Between the `---` lines, only "
                "`scale: LOW..HIGH` is allowed, such as `scale: 0..5`."
            )
    return text, scale


RUBRIC_CORRECTNESS = load_rubric("correctness")
"""0 to 5: how far an answer says what the reference answer says."""
RUBRIC_FAITHFULNESS = load_rubric("faithfulness")
"""0 to 1: whether the context passages support what an answer says."""
RUBRIC_RELEVANCE = load_rubric("relevance")
"""0 to 1: whether an answer responds to the question, be it right or wrong."""
RUBRIC_PATENT_CLAIM_VALIDITY = load_rubric("patent_claim_validity")
"""0 to 1: the mean of seven dimensions of a patent claim."""
RUBRIC_OFFICE_ACTION_ARGUMENT = load_rubric("office_action_argument")
"""0 to 1: the mean of four dimensions of a response to an office action."""

BUILTIN_RUBRICS: dict[str, str] = {
    "correctness": RUBRIC_CORRECTNESS,
    "faithfulness": RUBRIC_FAITHFULNESS,
    "relevance": RUBRIC_RELEVANCE,
}
"""The rubrics that `Judge.builtin` knows by name."""
