"""A small synchronous chat client over the targets of Proctor: one call, one answer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import finalize

from proctor.errors import ProctorError, TargetTimeout, UsageError
from proctor.eval.loop_thread import LoopThread

if TYPE_CHECKING:
    from typing import Self

    from proctor.eval.chat.sources import Source
    from proctor.model import Message, Output, Prompt


class ChatClient:
    """Asks a model and waits for its answer. Safe to use from several threads; one is as good as many.

    As a function it takes a prompt and gives the text of the answer, as `VerticalBench.run` wants it. The
    calls run in an event loop in a thread of its own, which begins with the first call and ends with
    `close` or the context: it can be used inside a running loop too, such as a notebook's.

    A call that failed for a passing reason (429, 5xx, no connection) is repeated with growing pauses. A
    client that asks the same thing again sends the next seed, as repeats of a run do, so that sampling at a
    temperature above 0 gives different answers, and the same ones in the next session.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> None:
        """A client of an OpenAI-compatible endpoint; nothing is opened yet.

        Args:
            base_url: such as "http://localhost:8000/v1"; `/chat/completions` is added to it.
            model: its name there.
            api_key: None takes the variable of a known service, such as OPENAI_API_KEY at OpenAI's, and
                PROCTOR_API_KEY anywhere else.
            timeout_s: what one try may take, in seconds.
            retries: how often a call is repeated that failed for a passing reason.
            max_tokens: the longest answer, where a call does not say; None leaves it to the endpoint.
            temperature: where a call does not say; None is 0.

        Raises:
            UsageError: the address or the key cannot be used.
        """
        from proctor.engines.retries import Patience
        from proctor.eval.chat.sources import at

        patience = Patience(timeout_s=timeout_s, retries=retries)
        source = at(base_url, model, api_key, dict(os.environ), patience)
        self._begin(source, f"{base_url!r}, {model!r}", timeout_s, max_tokens, temperature)

    @classmethod
    def over(
        cls,
        target: Any,
        *,
        timeout_s: float = 120.0,
        retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> Self:
        """A client of any target of Proctor; the parameters are those of the class.

        A script (`scripted:FILE`) answers by the text of the last message of the user: its keys are globs
        of that text. A local model is loaded once for each `max_tokens` that it is asked with.

        Args:
            target: a word as for `--target` ("local", "openai:gpt-5.2", "scripted:FILE", a name of
                targets.yaml), a `TargetSpec`, or an object with `async answer(prompt)`, which is asked as it
                is, whatever `max_tokens` says, and stays open.
            timeout_s: what one try may take, in seconds.
            retries: how often a call is repeated that failed for a passing reason.
            max_tokens: the longest answer, where a call does not say; None leaves it to the target.
            temperature: where a call does not say; None leaves it to the target.

        Raises:
            UsageError: there is no target of that name.
            SuiteError: targets.yaml is wrong.
            TypeError: it is no target.
        """
        from proctor.engines.retries import Patience
        from proctor.eval.chat.sources import over

        source = over(target, dict(os.environ), Patience(timeout_s=timeout_s, retries=retries))
        client = cls.__new__(cls)
        shown = repr(target) if isinstance(target, str) else source.name
        client._begin(source, shown, timeout_s, max_tokens, temperature)
        return client

    def _begin(
        self, source: Source, shown: str, timeout_s: float, max_tokens: int | None, temperature: float | None
    ) -> None:
        self._source = source
        self._shown = shown
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._background = LoopThread(
            "The client is closed. Make another one.",
            close_timeout_s=_PARTING_SECONDS,
            on_close=source.aclose,
        )
        self._end = finalize(self, _end, self._background)
        self._lock = Lock()
        self._asked: Counter[int] = Counter()
        self._totals: dict[str, float] = dict.fromkeys(_TOTALS, 0)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        response_format: Mapping[str, Any] | None = None,
        case_id: str | None = None,
        repeat: int | None = None,
    ) -> dict[str, Any]:
        """The answer to a conversation, in the form of OpenAI's chat completions.

        Args:
            messages: each with `role` and `content`, a text or a list of parts of type `text`.
            max_tokens: the longest answer; None is the client's.
            temperature: None is the client's.
            response_format: as OpenAI's: `{"type": "json_object"}`, or a `json_schema`; it is applied where
                the target can.
            case_id: for a script or a replay, which answer by it.
            repeat: added to the seed; None counts how often these messages were asked before.

        Returns:
            `choices` (one, with `message` and `finish_reason`), `model`, `usage` (tokens, or None where they
            are not known), and under `proctor` the milliseconds of the successful request, its cost in US
            dollars (None where no price is known) and the parameters that the endpoint refused.

        Raises:
            TargetError: there is no answer; TargetTimeout: none in time.
            UsageError: the target cannot be opened, or the client is closed.
            TypeError: a message is not as it must be.
        """
        prompt = self._prompt(messages, response_format, case_id, repeat)
        prompt = _with_temperature(prompt, self._temperature if temperature is None else temperature)
        try:
            output = self._background.wait(
                _answer(self._source, prompt, self._max_tokens if max_tokens is None else max_tokens)
            )
        except ProctorError as error:
            self._count({"failed": 1})
            if isinstance(error, TargetTimeout):
                raise TargetTimeout(
                    f"No answer within {self._timeout_s:g} s. Give the client a larger timeout_s."
                ) from error
            raise
        self._count(_taken(output))
        return _completion(output, self._source.name)

    def __call__(self, prompt: str) -> str:
        """The text of the answer to one question; errors as of `chat`."""
        answer: str = self.chat([{"role": "user", "content": prompt}])["choices"][0]["message"]["content"]
        return answer

    def totals(self) -> dict[str, float]:
        """What this client has asked so far.

        Returns:
            `calls` answered and `failed`; `input_tokens` and `output_tokens`, as far as they were told;
            `cost_usd`, and `without_cost`, the calls of which no cost is known.
        """
        with self._lock:
            return dict(self._totals)

    def close(self) -> None:
        """Close the connections, and cancel what is under way. Safe to call twice."""
        self._end.detach()
        self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ChatClient({self._shown})"

    def _prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        response_format: Mapping[str, Any] | None,
        case_id: str | None,
        repeat: int | None,
    ) -> Prompt:
        from proctor.model import Prompt

        sent = tuple(_message(message, place) for place, message in enumerate(messages, 1))
        if not sent:
            raise TypeError("There are no messages. Give at least one.")
        if case_id is None:
            asked = [message.content for message in sent if message.role == "user"]
            case_id = asked[-1] if asked and self._source.reads_case_ids else ""
        if repeat is None:
            key = hash(tuple((message.role, message.name, message.content) for message in sent))
            with self._lock:
                repeat = self._asked[key]
                self._asked[key] += 1
        json_answer, schema = _form(response_format)
        return Prompt(
            messages=sent, case_id=case_id, repeat=repeat, json_answer=json_answer, response_schema=schema
        )

    def _count(self, taken: Mapping[str, float]) -> None:
        with self._lock:
            for name, value in taken.items():
                self._totals[name] += value


_PARTING_SECONDS = 10.0
"""How long `close` waits for what ends with the client, such as a model's server."""
_TOTALS = ("calls", "failed", "input_tokens", "output_tokens", "cost_usd", "without_cost")


def _end(background: LoopThread) -> None:
    """End the loop of a client that nobody closed; at the program's end not all can be closed any more."""
    with suppress(Exception):
        background.close()


async def _answer(source: Source, prompt: Prompt, max_tokens: int | None) -> Output:
    return await (await source.target(max_tokens)).answer(prompt)


# --- what is asked -----------------------------------------------------------------------------------------


def _message(given: Any, place: int) -> Message:
    from proctor.model import Message

    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str):
        raise TypeError(f"Message {place} is no dictionary with a `role`: {given!r:.200}.")
    more = [name for name, value in given.items() if name not in ("role", "content", "name") and value]
    if more:
        raise TypeError(f"Message {place} has `{more[0]}`, which this client cannot send.")
    return Message(
        role=str(given["role"]), content=_content(given.get("content"), place), name=given.get("name")
    )


def _content(given: Any, place: int) -> str:
    if given is None or isinstance(given, str):
        return str(given or "")
    parts = given if isinstance(given, (list, tuple)) else [given]
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            raise TypeError(f"Message {place} has content that is no text: {part!r:.200}.")
    return "\n\n".join(part["text"] for part in parts)


def _form(wanted: Mapping[str, Any] | None) -> tuple[bool, dict[str, Any] | None]:
    """Whether JSON is wanted, and by which schema."""
    kind = None if wanted is None else wanted.get("type")
    if wanted is None or kind == "text":
        return False, None
    if kind == "json_object":
        return True, None
    schema = wanted.get("json_schema")
    schema = schema.get("schema") if isinstance(schema, Mapping) else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        raise UsageError(
            f"The response_format is {dict(wanted)!r:.200}. Give {{'type': 'json_object'}}, or "
            "{'type': 'json_schema', 'json_schema': {'name': …, 'schema': …}}."
        )
    return True, dict(schema)


def _with_temperature(prompt: Prompt, temperature: float | None) -> Prompt:
    if temperature is None:
        return prompt
    from msgspec.structs import replace

    return replace(prompt, temperature=temperature)


# --- what came back ----------------------------------------------------------------------------------------


def _completion(output: Output, name: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": output.text}
    if output.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in output.tool_calls]
    usage = output.usage
    return {
        "object": "chat.completion",
        "model": output.model or name,
        "choices": [{"index": 0, "message": message, "finish_reason": output.finish_reason}],
        "usage": None
        if usage is None
        else {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
        "proctor": {
            "latency_ms": output.latency_ms,
            "cost_usd": output.cost_usd,
            "refused_params": list(output.refused_params),
        },
    }


def _tool_call(call: Any) -> dict[str, Any]:
    from proctor.codec import encode

    arguments = encode(call.arguments).decode("utf-8")
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _taken(output: Output) -> dict[str, float]:
    usage = output.usage
    return {
        "calls": 1,
        "input_tokens": 0 if usage is None else usage.input_tokens,
        "output_tokens": 0 if usage is None else usage.output_tokens,
        "cost_usd": output.cost_usd or 0.0,
        "without_cost": output.cost_usd is None,
    }
