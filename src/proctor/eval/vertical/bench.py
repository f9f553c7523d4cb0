"""Runs and scores test sets of finance, law or another field: questions with one right answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.eval.bench.bench import CallTask
from proctor.eval.bench.calls import BenchCall
from proctor.eval.jsonl_rows import DroppedRow
from proctor.eval.judge.patent_scorers import office_action_argument, patent_claim_validity
from proctor.eval.parallel import CallOutcome, OnError
from proctor.eval.patents import irac_structure, prior_art_relevance
from proctor.eval.scorers import exact_match, mcq_letter, numeric_match
from proctor.eval.vertical.rows import HintedQA, VerticalQA, check_limit, read_questions
from proctor.eval.vertical.run import ACCURACY, UNSCORED, VerticalRun

if TYPE_CHECKING:
    from typing import Self

Scorer = Callable[..., float]
Model = Callable[[str], "str | Awaitable[str]"]

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

    `run` does not change the bench, so several threads may run it at once.

    Args:
        name: the name of its runs.
        questions: the questions with their right answers.
        scorer: called with the answer, the right answer and `scorer_kwargs`; returns a finite number, mostly
            0.0 to 1.0.
        scorer_kwargs: keyword arguments of the scorer.
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
        """Reads the questions of a file of JSON Lines, or of one JSON list.

        Lines without a question or a right answer are in `dropped`, as are those that are not JSON; 0 and
        false are answers.

        Args:
            path: the file, in UTF-8.
            name: None for the file's, without its ending.
            format: `financebench`, `legalbench`, `patent-strategist`, `generic`, or `auto` for that of the
                first row that has a question with an answer.
            limit: at most this many questions; the rest of the file is not read.
            scorer: None for the format's: numeric_match of financebench, mcq_letter of patent-strategist,
                exact_match of the others.
            scorer_kwargs: keyword arguments of the scorer.
            open_book: whether a question of financebench follows its evidence; None is true.
            subset: the `question_type` of the rows to keep, of financebench only; before `limit`.

        Raises:
            OSError: the file cannot be read.
            ValueError: the format is unknown, or `limit` is negative.
        """
        file = read_questions(path, format=format, limit=limit, open_book=open_book, subset=subset)
        return cls(
            Path(path).stem if name is None else name,
            file.questions,
            _DEFAULT_SCORERS.get(file.format, exact_match) if scorer is None else scorer,
            dict(scorer_kwargs or {}),
            dropped=tuple(file.dropped),
            not_in_subset=file.not_in_subset,
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
        """Sends each question to the model, scores its answer, and returns the calls in their order.

        A call has the metrics `accuracy`, the scorer's number, and `refusal`, 1.0 where `is_refusal` says so;
        its latency is that of `model_fn` alone. Its tags are `qid`, those of the question, and `extra_tags`.
        A call fails, without metrics, when the model raises or gives no text, and when the scorer raises or
        gives no finite number; `error` says which. A judge that gives no score leaves 0.0 and the tag
        `unscored`. A question's `rubric` is added to that of `scorer_kwargs` where the scorer takes one.

        Args:
            model_fn: called with one prompt; may be async, also where an event loop is running already.
            limit: run only the first questions, at most this many.
            on_error: `record` a failure as a failed call, or `raise` it, unrecorded.
            extra_tags: tags of every call; they replace the question's.
            should_abort: called before each question, in this thread; once it returns true no question is
                started, and the result is marked `aborted`.
            on_row: called after each call, failed ones too; one at a time, in the thread of the call.
            workers: how many questions at once. One calls `model_fn` in this thread.

        Raises:
            ValueError: `on_error`, `limit` or `workers` is none of these.
            TypeError: the scorer does not take `scorer_kwargs`, or needs more; no question has been sent.
            OSError: `partial` cannot be written.
        """
        from functools import partial
        from threading import RLock

        from proctor.eval.refusals import is_refusal  # 90 ms, and only runs need it

        questions = self.questions[: check_limit(limit)]
        takes_rubric = _takes_rubric(self.scorer, self.scorer_kwargs)
        extra = dict(extra_tags or {})
        run = VerticalRun(
            self.name, metrics=[ACCURACY, "refusal"], partial=self.partial, planned=len(questions)
        )
        lock = RLock()

        def should_stop() -> bool:
            run.aborted = should_abort is not None and bool(should_abort())
            return run.aborted

        def report_row() -> None:
            with lock:
                if on_row is not None:
                    on_row()

        with run:
            run._measure(
                lambda question: model_fn(question.question),
                (
                    CallTask(question, {"qid": question.qid, **question.tags, **extra})
                    for question in questions
                ),
                partial(self._score, is_refusal=is_refusal, takes_rubric=takes_rubric),
                on_error=on_error,
                workers=workers,
                should_stop=should_stop,
                on_call=report_row,
            )
        return run

    def _score(
        self,
        task: CallTask[VerticalQA],
        outcome: CallOutcome[Any],
        *,
        is_refusal: Callable[[str], bool],
        takes_rubric: bool,
    ) -> tuple[BenchCall, Exception | None]:
        """Returns the scored call of an answer, and the exception if there is no answer or no score."""
        question, output, error, where = task.input, outcome.value, outcome.error, ""
        call = BenchCall(question.question, output, round(outcome.seconds * 1000, 2), tags=task.tags)
        if error is None and not isinstance(output, str):
            error = TypeError(f"The model gave {type(output).__name__}, and only text can be scored.")
        if error is None:
            scorer_kwargs = self.scorer_kwargs
            if takes_rubric and isinstance(question, HintedQA):
                hints = {**(scorer_kwargs.get("rubric") or {}), **question.rubric}
                scorer_kwargs = scorer_kwargs | {"rubric": hints}
            judge = _RecordingJudge(scorer_kwargs.get("judge"))
            if callable(getattr(scorer_kwargs.get("judge"), "grade", None)):
                scorer_kwargs = scorer_kwargs | {"judge": judge}
            try:
                score = _require_finite(self.scorer(output, question.expected, **scorer_kwargs))
                call.metrics = {ACCURACY: score, "refusal": float(is_refusal(output))}
                call.tags |= {UNSCORED: True} if judge.is_silent else {}
            except Exception as scorer_error:  # noqa: BLE001  # recorded, or raised again
                error, where = scorer_error, f" (from the scorer {_scorer_name(self.scorer)})"
        if error is not None:
            call.success, call.error = False, f"{type(error).__name__}: {error}{where}"
        return call, error

    def summary(self) -> dict[str, Any]:
        """Returns what a run will measure: name, n, scorer (its name or `custom`) and sorted tag_keys."""
        return {
            "name": self.name,
            "n": len(self.questions),
            "scorer": _scorer_name(self.scorer),
            "tag_keys": sorted({str(key) for question in self.questions for key in question.tags}),
        }


def _takes_rubric(scorer: Scorer, scorer_kwargs: Mapping[str, Any]) -> bool:
    """Whether a scorer has a parameter `rubric`.

    Raises:
        TypeError: the scorer cannot be called with these arguments.
    """
    from inspect import signature

    try:
        scorer_signature = signature(scorer)
    except ValueError:  # some functions written in C do not say
        return False
    try:
        scorer_signature.bind("", "", **scorer_kwargs)
    except TypeError as error:
        raise TypeError(
            f"The scorer {_scorer_name(scorer)} cannot be called with an answer, the right answer and "
            f"{', '.join(scorer_kwargs) or 'nothing else'}: {error}. Give it scorer_kwargs that it takes."
        ) from None
    return "rubric" in scorer_signature.parameters


def _scorer_name(scorer: Scorer) -> str:
    """Returns the name of a scorer; `custom` for one without a name."""
    return str(getattr(scorer, "__name__", "custom"))


def _require_finite(score: Any) -> float:
    number = float(score)
    if not isfinite(number):
        raise ValueError(f"The score {number} is no finite number.")
    return number


class _RecordingJudge:
    """A judge for one answer that records whether its grade has no score."""

    def __init__(self, judge: Any) -> None:
        self._judge = judge
        self.is_silent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def grade(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the grade of the judge."""
        result = self._judge.grade(*args, **kwargs)
        self.is_silent = getattr(result, "score", 0) is None
        return result
