"""A model that grades answers by a rubric: what it is asked, and what its replies are read as.

The messages are those of fieldkit.eval. What is read of a reply is stricter: see `judge_replies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from proctor.errors import ProctorError
from proctor.eval.judge.rubrics import BUILTIN_RUBRICS, RUBRIC_CORRECTNESS, RubricText, Scale, checked_scale

if TYPE_CHECKING:
    from typing import Self

    from proctor.eval.chat.client import ChatClient
    from proctor.eval.judge.batch import JudgedAnswers

_FORM = {
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
    """The judge could not be asked, or what came back is no chat completion. A full sentence."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """What a judge says of one answer."""

    score: float | None
    """On the rubric's scale; None where no score can be read."""
    rationale: str
    """The judge's reason; the whole reply where it gives none that can be told apart."""
    raw: str
    """The reply as it came."""


@dataclass
class Judge:
    """Asks a model to grade answers by a rubric. Safe to use from several threads.

    As a context manager it closes what it opened itself, which is a target that was given by name.

    Args:
        client: who judges. Any object with `chat(messages, max_tokens=, temperature=)` that returns a
            dictionary as OpenAI's chat completions do; or a target of Proctor: an object with `async
            answer(prompt)` that gives an `Output`, or a name such as "local", "openai:gpt-5.2",
            "scripted:FILE" or one of targets.yaml.
        rubric: what it is told to go by, as its system message.
        max_tokens: the longest reply. A model that thinks before it answers needs far more, such as 4096: a
            reply that is cut off has no score.
        temperature: of the judge.
        scale: the least and the greatest score; others are refused. None takes the rubric's own, where it
            has one.
        json_reply: whether a `ChatClient` and a target of Proctor are asked to hold the reply to an object
            of score and rationale, where their endpoint can. Without, a model may think aloud before its
            verdict. Any other client is only asked with `max_tokens` and `temperature`.

    Raises:
        TypeError: the client cannot be asked.
        UsageError: there is no target of that name.
        ValueError: the scale is no range.
    """

    client: Any
    rubric: str = RUBRIC_CORRECTNESS
    max_tokens: int = 160
    temperature: float = 0.0
    scale: Scale | None = None
    json_reply: bool = True
    unscored: list[JudgeResult] = field(default_factory=list, init=False, compare=False, repr=False)
    """Every result without a score, in the order in which they came. They stay until you clear the list."""

    def __post_init__(self) -> None:
        """Find out how the client is asked."""
        self._lock = Lock()
        self._counts = {"scored": 0, "unscored": 0, "failed": 0}
        if self.scale is not None:
            self.scale = checked_scale(self.scale)
        self._opened = None if callable(getattr(self.client, "chat", None)) else self._open()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return f"<Judge {self._asked()}: {counts}>"

    def _repr_html_(self) -> str:
        from proctor.eval.notebook import table

        rows = {
            "asks": self._asked(),
            "rubric": self.rubric,
            "scores": self.score_range,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            **self.counts(),
        }
        return table("Judge", ["", "value"], rows.items())

    def _asked(self) -> str:
        return repr(self.client) if isinstance(self.client, str) else type(self.client).__name__

    def _open(self) -> ChatClient:
        if not isinstance(self.client, str) and not callable(getattr(self.client, "answer", None)):
            raise TypeError(
                f"A judge cannot ask a value of type {type(self.client).__name__}. Give an object with "
                "chat(messages, max_tokens=, temperature=), a target of Proctor, or the name of one."
            )
        from proctor.eval.chat.client import ChatClient

        return ChatClient.over(self.client)

    @property
    def score_range(self) -> Scale | None:
        """The least and the greatest score: of `scale`, else of the rubric; None where neither says."""
        own = self.rubric.scale if isinstance(self.rubric, RubricText) else None
        return own if self.scale is None else self.scale

    @classmethod
    def builtin(cls, client: Any, kind: str, **options: Any) -> Self:
        """A judge by one of the rubrics in `BUILTIN_RUBRICS`.

        Args:
            client: as of the class.
            kind: "correctness", "faithfulness" or "relevance".
            options: `max_tokens`, `temperature`, `scale`, `json_reply`.

        Raises:
            ValueError: there is no rubric of that name.
        """
        rubric = BUILTIN_RUBRICS.get(kind)
        if rubric is None:
            known = ", ".join(sorted(BUILTIN_RUBRICS))
            raise ValueError(f"There is no built-in rubric {kind!r}. Known are: {known}.")
        return cls(client, rubric, **options)

    @staticmethod
    def parse(raw: Any, scale: Scale | None = None, *, prediction: str = "") -> JudgeResult:
        """A judge's reply as a score and a rationale.

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
        from proctor.eval.judge.replies import read, text_of

        text = text_of(raw)
        score, rationale = read(text, scale, prediction)
        return JudgeResult(score, rationale, text)

    def grade(
        self,
        *,
        prediction: str,
        question: str | None = None,
        reference: str | None = None,
        context: str | None = None,
    ) -> JudgeResult:
        """Have one answer graded; what is None is left out of what the judge is shown.

        A result without a score is added to `unscored`. A reply that gives the rubric's form back, with its
        placeholder for the rationale, has none.

        Args:
            prediction: the answer to grade.
            question: what was asked.
            reference: a right answer.
            context: passages that the answer should be drawn from.

        Raises:
            JudgeError: the client failed, or returned no chat completion.
        """
        from proctor.eval.judge.replies import is_copied

        messages = _messages(self.rubric, prediction, question, reference, context)
        try:
            result = self.parse(self._content(messages), self.score_range, prediction=prediction)
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
        """Have many answers graded; a failed call is recorded with its reason and ends nothing.

        To see how steady a judge is, give the same answer several times, at a temperature above 0.

        Args:
            answers: each with what `grade` takes, and an `id` if it has one; otherwise its place, from 1.
            workers: how many are graded at once, in threads.

        Raises:
            ValueError: an answer lacks `prediction` or has something that `grade` does not take, or
                `workers` is below 1.
        """
        from proctor.eval.judge.batch import graded_by

        return graded_by(self, answers, workers)

    def counts(self) -> dict[str, int]:
        """How many replies had a score, how many had none, and how many calls failed."""
        with self._lock:
            return dict(self._counts)

    def close(self) -> None:
        """Close the target that was given by name. Safe to call twice; a client of yours stays open."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _content(self, messages: list[dict[str, str]]) -> Any:
        """The content of the judge's reply.

        Raises:
            JudgeError: there is none.
        """
        from proctor.eval.judge.replies import is_content

        client = self.client if self._opened is None else self._opened
        more: dict[str, Any] = {"response_format": _FORM} if self.json_reply and _is_own(client) else {}
        try:
            reply = client.chat(messages, max_tokens=self.max_tokens, temperature=self.temperature, **more)
        except Exception as error:
            kind = "" if isinstance(error, ProctorError) else f"{type(error).__name__}: "
            raise JudgeError(f"The judge could not be asked: {kind}{error}") from error
        try:
            content = reply["choices"][0]["message"]["content"]
        except (TypeError, KeyError, IndexError) as error:
            raise JudgeError(
                "The judge's reply is no chat completion: choices[0].message.content is not in "
                f"{_shown(reply)} ({type(error).__name__})."
            ) from error
        if not is_content(content):
            raise JudgeError(f"The content of the judge's reply is no text: {_shown(content)}.")
        return content


def _is_own(client: Any) -> bool:
    """Whether it is a `ChatClient`."""
    from proctor.eval.chat.client import ChatClient

    return isinstance(client, ChatClient)


def _messages(
    rubric: str, prediction: str, question: str | None, reference: str | None, context: str | None
) -> list[dict[str, str]]:
    lines = (
        ("Question: ", question),
        ("Reference answer: ", reference),
        ("Context passages:\n\n", context),
    )
    shown = [f"{label}{text}" for label, text in lines if text is not None]
    return [
        {"role": "system", "content": str(rubric)},
        {"role": "user", "content": "\n".join((*shown, f"Predicted answer: {prediction}", "", "Grade:"))},
    ]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
