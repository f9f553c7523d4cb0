"""A model that grades answers by a rubric, one answer or many.

The messages are those of fieldkit.eval. Replies are read more strictly: see `replies`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from threading import Lock
from typing import TYPE_CHECKING, Any

from proctor.errors import ProctorError
from proctor.eval.json_files import to_plain
from proctor.eval.judge.rubrics import BUILTIN_RUBRICS, RUBRIC_CORRECTNESS, RubricText, Scale, check_scale

if TYPE_CHECKING:
    from typing import Self

    from proctor.charts import Chart
    from proctor.eval.chat.client import ChatClient

_ANSWER_KEYS = ("prediction", "question", "reference", "context")
_MAX_BARS = 30
"""More answers than this are drawn as a count for each score."""
_REPLY_FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "grade",
        "schema": {
            "type": "object",
            "properties": {"score": {"type": "number"}, "rationale": {"type": "string"}},
            "required": ["score", "rationale"],
            "additionalProperties": False,
        },
    },
}
"""OpenAI's structured outputs: https://platform.openai.com/docs/guides/structured-outputs."""


class JudgeError(Exception):
    """The call to the judge failed, or its reply is not a chat completion. The message is a full sentence."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """A judge's score of one answer, with its reason."""

    score: float | None
    """On the rubric's scale; None if no score can be read."""
    rationale: str
    """The judge's reason; the whole reply if no reason can be separated from it."""
    raw: str
    """The reply as received."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer and its judgment."""

    id: str
    """The answer's own id, else its place, from 1."""
    result: JudgeResult | None
    """None if the call failed."""
    error: str | None = None
    """Why the call failed."""

    @property
    def score(self) -> float | None:
        """The score on the rubric's scale; None if there is none."""
        return None if self.result is None else self.result.score


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The judged answers in the order of the input."""

    answers: tuple[JudgedAnswer, ...]
    scale: Scale | None
    """The least and the greatest score, if the judge has them."""

    def scores(self) -> list[float | None]:
        """Returns the score of each answer, None for an answer without one."""
        return [answer.score for answer in self.answers]

    def statistics(self) -> dict[str, Any]:
        """Returns counts, the mean of the existing scores, and its 95 % interval.

        Returns:
            `n`, `scored`, `unscored` (replies without a score) and `failed` (calls); `mean` and `ci95`,
            Student's interval, on the rubric's scale; None if there are too few scores.
        """
        from proctor.stats import mean_interval

        scores = self._existing_scores()
        failed = sum(answer.result is None for answer in self.answers)
        return {
            "n": len(self.answers),
            "scored": len(scores),
            "unscored": len(self.answers) - len(scores) - failed,
            "failed": failed,
            "mean": fsum(scores) / len(scores) if scores else None,
            "ci95": to_plain(mean_interval(scores)),
        }

    def chart(self) -> Chart:
        """Draws the score of each answer as a bar; of more than 30 answers, how many got each score.

        Raises:
            ValueError: no answer has a score.
        """
        from proctor.charts import Bar, bars

        scores = self._existing_scores()
        missing = len(self.answers) - len(scores)
        title = f"Scores of {len(scores)} answers"
        if missing:
            title = f"Scores of {len(scores)} of {len(self.answers)} answers; {missing:,} without"
        if len(self.answers) > _MAX_BARS:
            counts = [(f"{score:g}", scores.count(score)) for score in sorted(set(scores), reverse=True)]
            return bars([Bar(label, count) for label, count in counts], title=title, unit="answers")
        uses = Counter[str]()
        score_bars = []
        for answer in self.answers:
            uses[answer.id] += 1
            if answer.score is not None:
                label = answer.id if uses[answer.id] == 1 else f"{answer.id} ({uses[answer.id]})"
                score_bars.append(Bar(label, answer.score))
        scale = "" if self.scale is None else f", from {self.scale[0]:g} to {self.scale[1]:g}"
        return bars(score_bars, title=title, unit=f"score{scale}")

    def _existing_scores(self) -> list[float]:
        return [score for score in self.scores() if score is not None]


@dataclass
class Judge:
    """Grades answers by a rubric, with a model. Safe to use from several threads.

    As a context manager it closes a target that it opened by name.

    Args:
        client: the judge. Any object with `chat(messages, max_tokens=, temperature=)` that returns a
            dictionary as OpenAI's chat completions do; or a target of Proctor: an object with `async
            answer(prompt)` that gives an `Output`, or a name such as "local", "openai:gpt-5.2",
            "scripted:FILE" or one of targets.yaml.
        rubric: the instructions for grading, as the system message.
        max_tokens: the longest reply. A model that thinks before it answers needs far more, such as 4096: a
            reply that is cut off has no score.
        temperature: of the judge.
        scale: the least and the greatest score; others are refused. None takes the rubric's own, where it
            has one.
        json_reply: whether a `ChatClient` or a target of Proctor should request a JSON object of score and
            rationale, if the endpoint supports it. Otherwise a model may reason before its verdict. Any
            other client is only called with `max_tokens` and `temperature`.

    Raises:
        TypeError: the client has neither `chat` nor `answer`, and is not a name.
        UsageError: there is no target of that name.
        ValueError: the scale is not a range.
    """

    client: Any
    rubric: str = RUBRIC_CORRECTNESS
    max_tokens: int = 160
    temperature: float = 0.0
    scale: Scale | None = None
    json_reply: bool = True
    unscored: list[JudgeResult] = field(default_factory=list, init=False, compare=False, repr=False)
    """Every result without a score, in order of arrival. They stay until you clear the list."""

    def __post_init__(self) -> None:
        """Checks the scale, and opens the client if it has no `chat`."""
        self._lock = Lock()
        self._counts = {"scored": 0, "unscored": 0, "failed": 0}
        if self.scale is not None:
            self.scale = check_scale(self.scale)
        self._own_client = None if callable(getattr(self.client, "chat", None)) else self._open_client()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return f"<Judge {self._client_name()}: {counts}>"

    def _repr_html_(self) -> str:
        from proctor.eval.tables import html_table

        rows = {
            "asks": self._client_name(),
            "rubric": self.rubric,
            "scores": self.score_range,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            **self.counts(),
        }
        return html_table("Judge", ["", "value"], rows.items())

    def _client_name(self) -> str:
        return repr(self.client) if isinstance(self.client, str) else type(self.client).__name__

    def _open_client(self) -> ChatClient:
        if not isinstance(self.client, str) and not callable(getattr(self.client, "answer", None)):
            raise TypeError(
                f"A judge cannot call a value of type {type(self.client).__name__}. Pass an object with "
                "chat(messages, max_tokens=, temperature=), a target of Proctor, or the name of one."
            )
        from proctor.eval.chat.client import ChatClient

        return ChatClient.over(self.client)

    @property
    def score_range(self) -> Scale | None:
        """The least and the greatest score: of `scale`, else of the rubric; None if neither has them."""
        own = self.rubric.scale if isinstance(self.rubric, RubricText) else None
        return own if self.scale is None else self.scale

    @classmethod
    def builtin(cls, client: Any, kind: str, **options: Any) -> Self:
        """Returns a judge with one of the rubrics in `BUILTIN_RUBRICS`.

        Args:
            client: as of the class.
            kind: "correctness", "faithfulness" or "relevance".
            options: `max_tokens`, `temperature`, `scale`, `json_reply`.

        Raises:
            ValueError: there is no rubric of that name.
        """
        rubric = BUILTIN_RUBRICS.get(kind)
        if rubric is None:
            names = ", ".join(sorted(BUILTIN_RUBRICS))
            raise ValueError(f"There is no built-in rubric {kind!r}. The rubrics are: {names}.")
        return cls(client, rubric, **options)

    @staticmethod
    def parse(raw: Any, scale: Scale | None = None, *, prediction: str = "") -> JudgeResult:
        """Parses a judge's reply into a score and a rationale.

        A score stands in a JSON object under `score` (fenced or not, after prose or thinking), also where
        the object was cut off, or in prose such as "Score: 4/5". Different scores are none, as the judge may
        quote one from the answer. Booleans, texts, NaN and infinities are no scores. The whole reply is the
        rationale where none stands beside the score.

        Args:
            raw: the reply: a text, a list of content parts, or None.
            scale: the least and the greatest score that count; None for any finite number.
            prediction: the answer that was judged. Where it is known, what the judge quotes of it is left out
                of a reply with different scores, if the least of them remains.

        Raises:
            TypeError: the reply is something else.
        """
        from proctor.eval.judge.replies import content_text, parse_reply

        text = content_text(raw)
        score, rationale = parse_reply(text, scale, prediction)
        return JudgeResult(score, rationale, text)

    def grade(
        self,
        *,
        prediction: str,
        question: str | None = None,
        reference: str | None = None,
        context: str | None = None,
    ) -> JudgeResult:
        """Grades one answer; arguments that are None are left out of the judge's prompt.

        A result without a score is added to `unscored`. A reply that gives the rubric's form back, with its
        placeholder for the rationale, has none.

        Args:
            prediction: the answer to grade.
            question: the question that the answer responds to.
            reference: a right answer.
            context: passages that the answer should be drawn from.

        Raises:
            JudgeError: the client failed, or returned no chat completion.
        """
        from proctor.eval.judge.replies import is_copied

        messages = _build_messages(self.rubric, prediction, question, reference, context)
        try:
            result = self.parse(self._request_reply(messages), self.score_range, prediction=prediction)
        except JudgeError:
            with self._lock:
                self._counts["failed"] += 1
            raise
        if is_copied(result.rationale, self.rubric):
            result = JudgeResult(None, result.raw, result.raw)
        with self._lock:
            if result.score is None:
                self.unscored.append(result)
            self._counts["scored" if result.score is not None else "unscored"] += 1
        return result

    def grade_all(self, answers: Iterable[Mapping[str, Any]], *, workers: int = 1) -> JudgedAnswers:
        """Grades many answers; a failed call is recorded with its reason and does not end the others.

        To see how steady a judge is, give the same answer several times, at a temperature above 0.

        Args:
            answers: each with what `grade` takes, and an `id` if it has one; otherwise its place, from 1.
            workers: how many are graded at once, in threads.

        Raises:
            ValueError: an answer lacks `prediction` or has something that `grade` does not take, or
                `workers` is below 1.
        """
        from contextlib import closing

        from proctor.eval.parallel import map_ordered

        requests = [_parse_answer(answer, place) for place, answer in enumerate(answers, 1)]
        judged_answers = []
        with closing(
            map_ordered(lambda request: self.grade(**request[1]), requests, workers=workers)
        ) as outcomes:
            for outcome in outcomes:
                if not isinstance(outcome.error, JudgeError | None):
                    raise outcome.error
                error = None if outcome.error is None else str(outcome.error)
                judged_answers.append(JudgedAnswer(outcome.item[0], outcome.value, error))
        return JudgedAnswers(tuple(judged_answers), self.score_range)

    def counts(self) -> dict[str, int]:
        """Returns how many replies had a score, how many had none, and how many calls failed."""
        with self._lock:
            return dict(self._counts)

    def close(self) -> None:
        """Closes a target that was opened by name. Safe to call twice; a client of yours stays open."""
        if self._own_client is not None:
            self._own_client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request_reply(self, messages: list[dict[str, str]]) -> Any:
        """Calls the judge and returns the content of its reply.

        Raises:
            JudgeError: the call failed, or the reply has no content.
        """
        from proctor.eval.chat.client import ChatClient
        from proctor.eval.judge.replies import is_content

        client = self.client if self._own_client is None else self._own_client
        options: dict[str, Any] = {}
        if self.json_reply and isinstance(client, ChatClient):
            options["response_format"] = _REPLY_FORMAT
        try:
            reply = client.chat(messages, max_tokens=self.max_tokens, temperature=self.temperature, **options)
        except Exception as error:
            kind = "" if isinstance(error, ProctorError) else f"{type(error).__name__}: "
            raise JudgeError(f"The call to the judge failed: {kind}{error}") from error
        try:
            content = reply["choices"][0]["message"]["content"]
        except (TypeError, KeyError, IndexError) as error:
            raise JudgeError(
                "The judge's reply is not a chat completion: choices[0].message.content is not in "
                f"{_excerpt(reply)} ({type(error).__name__})."
            ) from error
        if not is_content(content):
            raise JudgeError(f"The content of the judge's reply is not a text: {_excerpt(content)}.")
        return content


def _parse_answer(answer: Mapping[str, Any], place: int) -> tuple[str, dict[str, Any]]:
    """Returns the id, and the arguments of `grade`.

    Raises:
        ValueError: the answer lacks `prediction`, or has a key that `grade` does not take.
    """
    unknown = sorted(set(answer) - {"id", *_ANSWER_KEYS})
    if answer.get("prediction") is None or unknown:
        problem = f"has {unknown[0]!r}" if unknown else "has no prediction"
        raise ValueError(
            f"Answer {place} {problem}. Use `id` and any of {', '.join(_ANSWER_KEYS)}; prediction is "
            "required."
        )
    arguments = {name: answer[name] for name in _ANSWER_KEYS if name in answer}
    return str(answer.get("id", place)), arguments


def _build_messages(
    rubric: str, prediction: str, question: str | None, reference: str | None, context: str | None
) -> list[dict[str, str]]:
    lines = (("Question: ", question), ("Reference answer: ", reference), ("Context passages:\n\n", context))
    sections = [f"{label}{text}" for label, text in lines if text is not None]
    return [
        {"role": "system", "content": str(rubric)},
        {"role": "user", "content": "\n".join((*sections, f"Predicted answer: {prediction}", "", "Grade:"))},
    ]


def _excerpt(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
