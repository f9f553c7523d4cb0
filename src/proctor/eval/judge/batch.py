"""Many answers graded by one judge: scores in the order of the answers, what is missing, and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

from proctor.eval.json_files import plain
from proctor.eval.judge.rubrics import Scale

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.judge.judge import Judge, JudgeResult

_TAKEN = ("prediction", "question", "reference", "context")
_MOST_BARS = 30
"""More answers than this are drawn as how many got each score."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """What became of one answer."""

    id: str
    """The answer's own, else its place, from 1."""
    result: JudgeResult | None
    """None where the judge could not be asked."""
    error: str | None = None
    """Why, then."""

    @property
    def score(self) -> float | None:
        """On the rubric's scale; None where there is none."""
        return None if self.result is None else self.result.score


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """All of them, in the order in which they were given."""

    answers: tuple[JudgedAnswer, ...]
    scale: Scale | None
    """The least and the greatest score, where the judge has them."""

    def scores(self) -> list[float | None]:
        """One for each answer; None where there is none."""
        return [answer.score for answer in self.answers]

    def statistics(self) -> dict[str, Any]:
        """Counts, the mean of the scores there are, and its 95 % interval.

        Returns:
            `n`, `scored`, `unscored` (replies without a score) and `failed` (calls); `mean` and `ci95`,
            Student's interval, on the rubric's scale; None where there are too few scores.
        """
        from proctor.stats import mean_interval

        scores = self._known()
        failed = sum(answer.result is None for answer in self.answers)
        return {
            "n": len(self.answers),
            "scored": len(scores),
            "unscored": len(self.answers) - len(scores) - failed,
            "failed": failed,
            "mean": fsum(scores) / len(scores) if scores else None,
            "ci95": plain(mean_interval(scores)),
        }

    def chart(self) -> Chart:
        """The score of each answer as a bar; of more than 30, how many got each score.

        Raises:
            ValueError: no answer has a score.
        """
        from proctor.charts import Bar, bars

        scores = self._known()
        missing = len(self.answers) - len(scores)
        title = f"Scores of {len(scores)} answers"
        if missing:
            title = f"Scores of {len(scores)} of {len(self.answers)} answers; {missing:,} without"
        if len(self.answers) > _MOST_BARS:
            counts = [(f"{score:g}", scores.count(score)) for score in sorted(set(scores), reverse=True)]
            return bars([Bar(label, count) for label, count in counts], title=title, unit="answers")
        labels = _told_apart([one.id for one in self.answers])
        drawn = [
            Bar(label, one.score)
            for label, one in zip(labels, self.answers, strict=True)
            if one.score is not None
        ]
        scale = "" if self.scale is None else f", from {self.scale[0]:g} to {self.scale[1]:g}"
        return bars(drawn, title=title, unit=f"score{scale}")

    def _known(self) -> list[float]:
        return [score for score in self.scores() if score is not None]


def _told_apart(ids: list[str]) -> list[str]:
    """The ids, each that was there before with which of its kind it is."""
    seen = Counter[str]()
    labels = []
    for name in ids:
        seen[name] += 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return labels


def graded_by(judge: Judge, answers: Iterable[Mapping[str, Any]], workers: int) -> JudgedAnswers:
    """Have a judge grade many answers; see `Judge.grade_all`.

    Raises:
        ValueError: an answer is not as it must be, or `workers` is below 1; nobody is asked then.
    """
    from proctor.eval.judge.judge import JudgeError
    from proctor.eval.parallel import in_order

    asked = [_checked(answer, place) for place, answer in enumerate(answers, 1)]
    judged = []
    with closing(in_order(lambda one: judge.grade(**one[1]), asked, workers=workers)) as outcomes:
        for outcome in outcomes:
            name = outcome.item[0]
            if outcome.error is None:
                judged.append(JudgedAnswer(name, outcome.value))
            elif isinstance(outcome.error, JudgeError):
                judged.append(JudgedAnswer(name, None, str(outcome.error)))
            else:
                raise outcome.error
    return JudgedAnswers(tuple(judged), judge.score_range)


def _checked(answer: Mapping[str, Any], place: int) -> tuple[str, dict[str, Any]]:
    """The id, and what `grade` takes."""
    unknown = sorted(set(answer) - {"id", *_TAKEN})
    if answer.get("prediction") is None or unknown:
        what = f"has {unknown[0]!r}" if unknown else "has no prediction"
        raise ValueError(
            f"Answer {place} {what}. Give `id` and any of {', '.join(_TAKEN)}; prediction always."
        )
    given = {name: answer[name] for name in _TAKEN if name in answer}
    return str(answer.get("id", place)), given
