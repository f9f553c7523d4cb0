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

    from proctor.eval.chat.sources import TargetSource
    from proctor.model import Message, Output, Prompt


class ChatClient:
    """Calls a model and waits for its answer. Safe to use from several threads; one client is enough.

    As a function it takes a prompt and returns the text of the answer, as `VerticalBench.run` needs it. The
    calls run in an event loop in a thread of its own, which starts with the first call and ends with
    `close` or the context, so it can be used inside a running loop too, such as a notebook's.

    A call that failed temporarily (429, 5xx, no connection) is repeated with growing pauses. A
    client that sends the same messages again uses the next seed, as repeats of a run do, so that sampling at
    a temperature above 0 gives different answers, and the same ones in the next session.
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
        """Makes a client of an OpenAI-compatible endpoint; opens no connection yet.

        Args:
            base_url: such as "http://localhost:8000/v1"; `/chat/completions` is added to it.
            model: its name there.
            api_key: None takes the variable of a known service, such as OPENAI_API_KEY at OpenAI's, and
                PROCTOR_API_KEY anywhere else.
            timeout_s: time limit of one attempt, in seconds.
            retries: how often a call that failed temporarily is repeated.
            max_tokens: the longest answer, if a call does not set it; None leaves it to the endpoint.
            temperature: if a call does not set it; None is 0.

        Raises:
            UsageError: the address or the key cannot be used.
        """
        from proctor.engines.retries import RetryPolicy
        from proctor.eval.chat.sources import endpoint_source

        retry_policy = RetryPolicy(timeout_s=timeout_s, retries=retries)
        source = endpoint_source(base_url, model, api_key, dict(os.environ), retry_policy)
        self._setup(source, f"{base_url!r}, {model!r}", timeout_s, max_tokens, temperature)

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
        """Makes a client of any target of Proctor.

        The target is a word as for `--target` ("local", "openai:gpt-5.2", "scripted:FILE", a name of
        targets.yaml), a `TargetSpec`, or an object with `async answer(prompt)`, which is called unchanged,
        ignores `max_tokens`, and stays open. The other parameters are those of the class, but a temperature
        of None leaves it to the target.

        A script (`scripted:FILE`) answers by the text of the last message of the user: its keys are globs
        of that text. A local model is loaded once for each value of `max_tokens`.

        Raises:
            UsageError: there is no target of that name.
            SuiteError: targets.yaml is wrong.
            TypeError: it is not a target.
        """
        from proctor.engines.retries import RetryPolicy
        from proctor.eval.chat.sources import target_source

        source = target_source(target, dict(os.environ), RetryPolicy(timeout_s=timeout_s, retries=retries))
        client = cls.__new__(cls)
        description = repr(target) if isinstance(target, str) else source.name
        client._setup(source, description, timeout_s, max_tokens, temperature)
        return client

    def _setup(
        self,
        source: TargetSource,
        description: str,
        timeout_s: float,
        max_tokens: int | None,
        temperature: float | None,
    ) -> None:
        self._source = source
        self._description = description
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._loop_thread = LoopThread(
            "The client is closed. Create another one.",
            close_timeout_s=_CLOSE_TIMEOUT_S,
            on_close=source.aclose,
        )
        self._finalizer = finalize(self, _close_quietly, self._loop_thread)
        self._lock = Lock()
        self._repeats: Counter[int] = Counter()
        self._totals: dict[str, float] = dict.fromkeys(_TOTAL_NAMES, 0)

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
        """Returns the answer to a conversation, in the form of OpenAI's chat completions.

        Args:
            messages: each with `role` and `content`, a text or a list of parts of type `text`.
            max_tokens: the longest answer; None is the client's.
            temperature: None is the client's.
            response_format: as OpenAI's: `{"type": "json_object"}`, or a `json_schema`; it is applied if
                the target supports it.
            case_id: the key of the answer in a script or a replay.
            repeat: added to the seed; None counts how often these messages were sent before.

        Returns:
            `choices` (one, with `message` and `finish_reason`), `model`, `usage` (tokens, or None where they
            are not known), and under `proctor` the milliseconds of the successful request, its cost in US
            dollars (None where no price is known) and the parameters that the endpoint refused.

        Raises:
            TargetError: there is no answer; TargetTimeout: none in time.
            UsageError: the target cannot be opened, or the client is closed.
            TypeError: a message is invalid.
        """
        prompt = self._build_prompt(
            messages,
            response_format,
            case_id,
            repeat,
            self._temperature if temperature is None else temperature,
        )

        async def request_answer() -> Output:
            target = await self._source.open_target(self._max_tokens if max_tokens is None else max_tokens)
            return await target.answer(prompt)

        try:
            output = self._loop_thread.wait(request_answer())
        except ProctorError as error:
            self._add_totals({"failed": 1})
            if isinstance(error, TargetTimeout):
                raise TargetTimeout(
                    f"No answer within {self._timeout_s:g} s. Use a larger timeout_s for the client."
                ) from error
            raise
        usage = output.usage
        self._add_totals(
            {
                "calls": 1,
                "input_tokens": 0 if usage is None else usage.input_tokens,
                "output_tokens": 0 if usage is None else usage.output_tokens,
                "cost_usd": output.cost_usd or 0.0,
                "without_cost": output.cost_usd is None,
            }
        )
        return _to_completion(output, self._source.name)

    def __call__(self, prompt: str) -> str:
        """Returns the text of the answer to one question; errors as of `chat`."""
        answer: str = self.chat([{"role": "user", "content": prompt}])["choices"][0]["message"]["content"]
        return answer

    def totals(self) -> dict[str, float]:
        """Returns the totals of this client so far.

        Returns:
            `calls` answered and `failed`; `input_tokens` and `output_tokens`, as far as they were reported;
            `cost_usd`, and `without_cost`, the calls without a known cost.
        """
        with self._lock:
            return dict(self._totals)

    def close(self) -> None:
        """Closes the connections, and cancels running calls. Safe to call twice."""
        self._finalizer.detach()
        self._loop_thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ChatClient({self._description})"

    def _build_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        response_format: Mapping[str, Any] | None,
        case_id: str | None,
        repeat: int | None,
        temperature: float | None,
    ) -> Prompt:
        from proctor.model import Prompt

        prompt_messages = tuple(_parse_message(message, place) for place, message in enumerate(messages, 1))
        if not prompt_messages:
            raise TypeError("There are no messages. Pass at least one.")
        if case_id is None:
            user_texts = [message.content for message in prompt_messages if message.role == "user"]
            case_id = user_texts[-1] if user_texts and self._source.reads_case_ids else ""
        if repeat is None:
            key = hash(
                tuple(
                    (message.role, message.name, message.content, message.parts)
                    for message in prompt_messages
                )
            )
            with self._lock:
                repeat = self._repeats[key]
                self._repeats[key] += 1
        json_answer, schema = _parse_response_format(response_format)
        return Prompt(
            messages=prompt_messages,
            case_id=case_id,
            repeat=repeat,
            json_answer=json_answer,
            response_schema=schema,
            temperature=temperature,
        )

    def _add_totals(self, amounts: Mapping[str, float]) -> None:
        with self._lock:
            for name, value in amounts.items():
                self._totals[name] += value


_CLOSE_TIMEOUT_S = 10.0
"""How long `close` waits for the target to end, such as a model's server."""
_TOTAL_NAMES = ("calls", "failed", "input_tokens", "output_tokens", "cost_usd", "without_cost")


def _close_quietly(loop_thread: LoopThread) -> None:
    """Ends the loop of a client that was not closed; ignores errors, as Python may be shutting down."""
    with suppress(Exception):
        loop_thread.close()


# --- prompts -----------------------------------------------------------------------------------------------


def _parse_message(value: Any, place: int) -> Message:
    from proctor.model import Message

    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        raise TypeError(f"Message {place} is not a dictionary with a `role`: {value!r:.200}.")
    extras = [name for name, field in value.items() if name not in ("role", "content", "name") and field]
    if extras:
        raise TypeError(f"Message {place} has `{extras[0]}`, which this client cannot send.")
    role, name, content = str(value["role"]), value.get("name"), value.get("content")
    if isinstance(content, (list, tuple)) and not all(map(_is_text_part, content)):
        return _parse_parts(content, role, name, place)
    return Message(role=role, content=_content_text(content, place), name=name)


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def _parse_parts(parts: Sequence[Any], role: str, name: str | None, place: int) -> Message:
    """Returns a message with files; their content is in base64 or in data URLs."""
    from proctor.dialects.shared.content_parts import parse_content_parts
    from proctor.validation import FieldReader, ProblemLog

    problem_log = ProblemLog("", 1, f"Message {place}")
    content = [dict(part) if isinstance(part, Mapping) else part for part in parts]
    message = parse_content_parts(FieldReader({"content": content}, problem_log), role, name)
    for problem in problem_log.problems:
        if problem.level == "error":
            raise TypeError(f"Message {place}: {problem.message}")
    return message


def _content_text(value: Any, place: int) -> str:
    if value is None or isinstance(value, str):
        return str(value or "")
    parts = value if isinstance(value, (list, tuple)) else [value]
    for part in parts:
        if not _is_text_part(part):
            raise TypeError(f"Message {place} has content that is not text: {part!r:.200}.")
    return "\n\n".join(part["text"] for part in parts)


def _parse_response_format(response_format: Mapping[str, Any] | None) -> tuple[bool, dict[str, Any] | None]:
    """Returns whether JSON is requested, and its schema."""
    kind = None if response_format is None else response_format.get("type")
    if response_format is None or kind == "text":
        return False, None
    if kind == "json_object":
        return True, None
    schema = response_format.get("json_schema")
    schema = schema.get("schema") if isinstance(schema, Mapping) else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        raise UsageError(
            f"The response_format is {dict(response_format)!r:.200}. Use {{'type': 'json_object'}}, or "
            "{'type': 'json_schema', 'json_schema': {'name': …, 'schema': …}}."
        )
    return True, dict(schema)


# --- answers -----------------------------------------------------------------------------------------------


def _to_completion(output: Output, name: str) -> dict[str, Any]:
    from proctor.codec import encode

    message: dict[str, Any] = {"role": "assistant", "content": output.text}
    if output.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": encode(call.arguments).decode("utf-8")},
            }
            for call in output.tool_calls
        ]
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
