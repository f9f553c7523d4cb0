"""Test sets of a trade, such as finance or law: questions with one right answer, asked and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.eval.jsonl_rows import DroppedRow
from proctor.eval.judge.patent_scorers import office_action_argument, patent_claim_validity
from proctor.eval.parallel import OnError, in_order, is_recorded
from proctor.eval.patents import irac_structure, prior_art_relevance
from proctor.eval.scorers import exact_match, mcq_letter, numeric_match
from proctor.eval.vertical.rows import HintedQA, VerticalQA, checked_limit, load
from proctor.eval.vertical.run import Asked, Model, Scorer, Sweep, VerticalRun, name_of

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "PATENT_STRATEGIST_SCORERS",
    "PATENT_STRATEGIST_SCORER_FNS",
    "HintedQA",
    "VerticalBench",
    "VerticalQA",
    "VerticalRun",
]

PATENT_STRATEGIST_SCORERS = {
    "A": "patent_claim_validity",
    "B": "prior_art_relevance",
    "C": "judge_rubric",
    "D-mcq": "mcq_letter",
    "D-oa": "office_action_argument",
    "D-irac": "irac_structure",
    "E": "judge_rubric",
}
"""The scorer for each family of patent-strategist questions, by name; `judge_rubric` is a judge with a rubric
of your choice."""

PATENT_STRATEGIST_SCORER_FNS: dict[str, Scorer] = {
    "A": patent_claim_validity,
    "B": prior_art_relevance,
    "D-mcq": mcq_letter,
    "D-oa": office_action_argument,
    "D-irac": irac_structure,
}
"""Those of them that are functions. A and D-oa need `scorer_kwargs={"judge": …}`."""

_DEFAULT_SCORERS: dict[str, Scorer] = {"financebench": numeric_match, "patent-strategist": mcq_letter}


@dataclass
class VerticalBench:
    """Questions, and the scorer of their answers.

    `run` changes nothing here, so several runs may go on at once in several threads.

    Args:
        name: what its benches are called.
        questions: what is asked.
        scorer: called with the answer, the right one and `scorer_kwargs`; gives a finite number, mostly 0.0
            to 1.0.
        scorer_kwargs: what the scorer is given by name.
        dropped: the lines that `from_jsonl` could not use.
        not_in_subset: how many rows its `subset` left out.
        partial: a file of JSON Lines to which a run adds each call when it ends; `Bench.load` reads it back.
    """

    name: str
    questions: list[VerticalQA]
    scorer: Scorer = exact_match
    scorer_kwargs: dict[str, Any] = field(default_factory=dict)
    dropped: tuple[DroppedRow, ...] = field(default=(), kw_only=True)
    not_in_subset: int = field(default=0, kw_only=True)
    partial: str | Path | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<VerticalBench {self.name!r}: {len(self.questions)} questions, {self.summary()['scorer']}>"

    @classmethod
    def from_jsonl(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        format: str = "auto",  # noqa: A002  # the name that callers know
        limit: int | None = None,
        scorer: Scorer | None = None,
        scorer_kwargs: Mapping[str, Any] | None = None,
        open_book: bool | None = None,
        subset: str | None = None,
    ) -> Self:
        """The questions of a file of JSON Lines, or of one JSON list.

        Lines without a question or a right answer are in `dropped`, as are those that are not JSON; 0 and
        false are answers.

        Args:
            path: the file, in UTF-8.
            name: None for the file's, without its ending.
            format: `financebench`, `legalbench`, `patent-strategist`, `generic`, or `auto` for that of the
                first row that has a question with an answer.
            limit: at most so many questions; the file is read no further.
            scorer: None for the format's: numeric_match of financebench, mcq_letter of patent-strategist,
                exact_match of the others.
            scorer_kwargs: what the scorer is given by name.
            open_book: whether a question of financebench follows its evidence; None is true.
            subset: the `question_type` of the rows to keep, of financebench only; before `limit`.

        Raises:
            OSError: the file cannot be read.
            ValueError: the format is unknown, or `limit` is negative.
        """
        loaded = load(path, format=format, limit=limit, open_book=open_book, subset=subset)
        return cls(
            Path(path).stem if name is None else name,
            loaded.questions,
            _DEFAULT_SCORERS.get(loaded.format, exact_match) if scorer is None else scorer,
            dict(scorer_kwargs or {}),
            dropped=tuple(loaded.dropped),
            not_in_subset=loaded.not_in_subset,
        )

    def run(
        self,
        model_fn: Model,
        *,
        limit: int | None = None,
        on_error: OnError = "record",
        extra_tags: Mapping[str, Any] | None = None,
        should_abort: Callable[[], bool] | None = None,
        on_row: Callable[[], None] | None = None,
        workers: int = 1,
    ) -> VerticalRun:
        """Ask each question, score its answer, and give the calls in the order of the questions.

        A call has the metrics `accuracy`, the scorer's number, and `refusal`, 1.0 where `is_refusal` says so;
        its latency is that of `model_fn` alone. Its tags are `qid`, those of the question, and `extra_tags`.
        A call fails, without metrics, when the model raises or gives no text, and when the scorer raises or
        gives no finite number; `error` says which. A judge that gives no score leaves 0.0 and the tag
        `unscored`. A question's `rubric` is added to that of `scorer_kwargs` where the scorer takes one.

        Args:
            model_fn: called with one prompt; may be async, also where an event loop is running already.
            limit: ask only so many questions, the first ones.
            on_error: `record` a failure as a failed call, or `raise` it, unrecorded.
            extra_tags: tags of every call; they win over the question's.
            should_abort: asked before each question, in this thread; once it is true none is begun, and the
                result is marked `aborted`.
            on_row: called when a call has ended, failed ones too; one at a time, in the thread that ended it.
            workers: how many questions at once. One calls `model_fn` in this thread.

        Raises:
            ValueError: `on_error`, `limit` or `workers` is none of these.
            TypeError: the scorer does not take `scorer_kwargs`, or needs more; nothing has been asked yet.
            OSError: `partial` cannot be written.
        """
        records = is_recorded(on_error)
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}.")
        questions = self.questions[: checked_limit(limit)]
        tasks = self._asked(questions, dict(extra_tags or {}))
        result = VerticalRun(
            self.name, metrics=["accuracy", "refusal"], partial=self.partial, planned=len(questions)
        )
        sweep = Sweep(result, model_fn, self.scorer, records=records, on_row=on_row)

        def stops() -> bool:
            result.aborted = should_abort is not None and bool(should_abort())
            return result.aborted

        with result, closing(in_order(sweep, tasks, workers=workers, should_stop=stops)) as outcomes:
            try:
                for outcome in outcomes:
                    outcome.result()
            finally:
                sweep.close()
        return result

    def summary(self) -> dict[str, Any]:
        """What a run will measure: name, n, scorer (its name, or `custom`) and the sorted tag_keys."""
        return {
            "name": self.name,
            "n": len(self.questions),
            "scorer": name_of(self.scorer),
            "tag_keys": sorted({str(key) for question in self.questions for key in question.tags}),
        }

    def _asked(self, questions: list[VerticalQA], extra: dict[str, Any]) -> Iterator[Asked]:
        """What is to be asked; the scorer's arguments are checked at once."""
        takes_rubric = _checked(self.scorer, self.scorer_kwargs)
        return (
            Asked(
                place,
                question,
                _hinted(self.scorer_kwargs, question) if takes_rubric else self.scorer_kwargs,
                {"qid": question.qid, **question.tags, **extra},
            )
            for place, question in enumerate(questions)
        )


def _checked(scorer: Scorer, scorer_kwargs: Mapping[str, Any]) -> bool:
    """Whether a scorer has a parameter `rubric`.

    Raises:
        TypeError: it cannot be called with these arguments.
    """
    from inspect import signature

    try:
        found = signature(scorer)
    except ValueError:  # some functions written in C do not say
        return False
    try:
        found.bind("", "", **scorer_kwargs)
    except TypeError as error:
        raise TypeError(
            f"The scorer {name_of(scorer)} cannot be called with an answer, the right answer and "
            f"{', '.join(scorer_kwargs) or 'nothing else'}: {error}. Give it scorer_kwargs that it takes."
        ) from None
    return "rubric" in found.parameters


def _hinted(scorer_kwargs: dict[str, Any], question: VerticalQA) -> dict[str, Any]:
    """The scorer's arguments with the question's own hints, which win over those for all."""
    if not isinstance(question, HintedQA):
        return scorer_kwargs
    return scorer_kwargs | {"rubric": {**(scorer_kwargs.get("rubric") or {}), **question.rubric}}
