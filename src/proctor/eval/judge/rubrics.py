"""What a judge is told to grade by: the rubrics that come with Proctor, and files of a user's own.

A rubric is a Markdown file. It may begin with a line `---`, a line `scale: LOW..HIGH` and a line `---`; these
say which scores there are and are not shown to the judge. The rest is the judge's system message.
"""

from __future__ import annotations

import re
from pathlib import Path

Scale = tuple[float, float]
"""The least and the greatest score, both of them possible."""

_FOLDER = Path(__file__).parents[2] / "rubrics"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_SCALE = re.compile(r"(-?\d+(?:\.\d+)?) *\.\. *(-?\d+(?:\.\d+)?)")


class RubricText(str):
    """The text of a rubric, which also knows the range of its scores. Everywhere else it is a plain `str`."""

    scale: Scale | None
    """The least and the greatest score; None where the rubric does not say."""

    def __new__(cls, text: str, scale: Scale | None = None) -> RubricText:
        """A rubric.

        Args:
            text: what the judge is told, as its system message.
            scale: the least and the greatest score; others are refused. None lets every finite score pass.

        Raises:
            ValueError: the scale is no range.
        """
        made = super().__new__(cls, text)
        made.scale = None if scale is None else checked_scale(scale)
        return made

    @classmethod
    def from_file(cls, path: str | Path, scale: Scale | None = None) -> RubricText:
        """A rubric of your own, from a Markdown file in UTF-8.

        Args:
            path: the file, which may begin with `---`, `scale: 0..5`, `---`.
            scale: instead of the file's own.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not UTF-8, it is empty, or what stands before its text cannot be understood.
        """
        try:
            written = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"The rubric {str(path)!r} is not UTF-8: {error}. Save it as UTF-8.") from None
        text, own = _parts(written, str(path))
        return cls(text, own if scale is None else scale)


def checked_scale(scale: Scale) -> Scale:
    """The scale as two floats.

    Raises:
        ValueError: it is no pair of finite numbers of which the first is less than the second.
    """
    try:
        low, high = (float(end) for end in scale)
    except (TypeError, ValueError):
        low = high = 0.0
    if not float("-inf") < low < high < float("inf"):
        raise ValueError(f"The scale is {scale!r}. Give the least and the greatest score, such as (0, 5).")
    return low, high


def load_rubric(name: str) -> RubricText:
    """A rubric that comes with Proctor, read anew, with its `scale`.

    For a file elsewhere there is `RubricText.from_file(path)`.

    Args:
        name: without folder and ending, such as "patent_claim_validity".

    Raises:
        FileNotFoundError: there is none of that name; a path is never a name.
    """
    path = _FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        known = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.md")))
        raise FileNotFoundError(
            f"There is no rubric {name!r}. Known are: {known}. Read a file of your own with "
            "proctor.eval.judge.rubrics.RubricText.from_file(path)."
        )
    return RubricText.from_file(path)


def _parts(written: str, path: str) -> tuple[str, Scale | None]:
    """The text without what stands before it, and the scale."""
    front = _FRONT.match(written)
    text = (written[front.end() :] if front else written).strip()
    if not text:
        raise ValueError(f"The rubric {path!r} is empty. Write what the judge is to go by.")
    scale: Scale | None = None
    for number, line in enumerate(front[1].splitlines() if front else (), 2):
        key, _, value = line.partition(":")
        found = _SCALE.fullmatch(value.strip()) if key.strip() == "scale" else None
        if found:
            scale = checked_scale((float(found[1]), float(found[2])))
        elif line.strip():
            raise ValueError(
                f"{path}:{number}: {line!r} cannot be understood. Between the lines `---` only "
                "`scale: LOW..HIGH` may stand, such as `scale: 0..5`."
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
