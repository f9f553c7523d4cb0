"""Puts the chunks of a streamed chat completion together to the reply that it has unstreamed. Pure.

Source: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
from msgspec import Struct

from proctor.targets.api.answer_media import decode_base64

_ENCODER = msgspec.json.Encoder()
_TOP_FIELDS = ("id", "model", "system_fingerprint", "service_tier", "usage")
_TEXTS = ("reasoning_content", "reasoning", "refusal")
_LISTS = ("reasoning_details", "images")


class _CallParts(Struct):
    """What has arrived of one tool call."""

    id: str | None = None
    name: str = ""
    arguments: list[str] = []

    def join(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


class ChatStream:
    """One streamed reply; chunks of further answers than the first are ignored."""

    def __init__(self) -> None:
        """Starts without a chunk."""
        self.is_complete = False
        """Whether the reason of the end, or an error, has arrived."""
        self._reply: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._calls: list[_CallParts] = []
        self._calls_by_index: dict[int, _CallParts] = {}
        self._audio: list[bytes] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._finish_reason: Any = None
        self._has_choice = False

    def add(self, event: dict[str, Any]) -> bool:
        """Adds one chunk; returns whether it brought reasoning, text, audio or a part of a tool call."""
        if event.get("error"):
            self._reply["error"] = event["error"]
            self.is_complete = True
            return False
        self._reply |= {name: event[name] for name in _TOP_FIELDS if event.get(name)}
        groq = event.get("x_groq")
        if isinstance(groq, dict) and groq.get("usage") and not self._reply.get("usage"):
            self._reply["usage"] = groq["usage"]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index"):
            return False
        self._has_choice = True
        if choice.get("finish_reason"):
            self._finish_reason = choice["finish_reason"]
            self.is_complete = True
        self._add_logprobs(choice.get("logprobs"))
        delta = choice.get("delta") or choice.get("message")
        return self._add_delta(delta) if isinstance(delta, dict) else False

    def body(self) -> bytes:
        """Returns the JSON of the unstreamed reply, or of the error that a chunk reported."""
        if "error" in self._reply or not self._has_choice:
            return _ENCODER.encode(self._reply)
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self._texts.items()}
        message |= self._lists
        transcript = message.pop("transcript", None)
        message["content"] = self._join_content(message.pop("content", ""), message.pop("parts", []))
        if self._calls:
            message["tool_calls"] = [call.join() for call in self._calls]
        if self._audio or transcript:
            data = b64encode(b"".join(self._audio)).decode()
            message["audio"] = {"data": data, "transcript": transcript}
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        return _ENCODER.encode({**self._reply, "choices": [choice]})

    @staticmethod
    def _join_content(text: str, parts: list[Any]) -> Any:
        """Returns the text, or a list of parts where the service sends parts, as Mistral does."""
        if not parts:
            return text
        return [*parts, *([{"type": "text", "text": text}] if text else [])]

    def _add_delta(self, delta: dict[str, Any]) -> bool:
        has_token = self._add_content(delta.get("content"))
        for name in _TEXTS:
            has_token = self._add_text(name, delta.get(name)) or has_token
        for name in _LISTS:
            parts = delta.get(name)
            if isinstance(parts, list) and parts:
                self._lists.setdefault(name, []).extend(parts)
                has_token = True
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._add_call(call)
                has_token = True
        return self._add_audio(delta.get("audio")) or has_token

    def _add_text(self, name: str, text: Any) -> bool:
        if not isinstance(text, str) or not text:
            return False
        self._texts.setdefault(name, []).append(text)
        return True

    def _add_content(self, content: Any) -> bool:
        if not isinstance(content, list):
            return self._add_text("content", content)
        for part in content:
            if isinstance(part, dict) and part.get("type") == "text":
                self._add_text("content", part.get("text"))
            elif isinstance(part, dict):
                self._lists.setdefault("parts", []).append(part)
        return bool(content)

    def _find_call(self, delta: dict[str, Any]) -> _CallParts:
        """Returns the call that a part belongs to: a new id begins a call, even under an old index."""
        index, call_id = delta.get("index"), delta.get("id")
        last_call = self._calls[-1] if self._calls else None
        call = self._calls_by_index.get(index) if isinstance(index, int) else last_call
        if call is None or (isinstance(call_id, str) and call_id and call.id not in {None, call_id}):
            call = _CallParts()
            self._calls.append(call)
        if isinstance(index, int):
            self._calls_by_index[index] = call
        if isinstance(call_id, str) and call_id:
            call.id = call_id
        return call

    def _add_call(self, delta: dict[str, Any]) -> None:
        call = self._find_call(delta)
        function = delta.get("function")
        if not isinstance(function, dict):
            return
        if isinstance(function.get("name"), str):
            call.name = call.name or function["name"]
        arguments = function.get("arguments")
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else _ENCODER.encode(arguments).decode()
            call.arguments.append(text)

    def _add_audio(self, audio: Any) -> bool:
        if not isinstance(audio, dict):
            return False
        has_token = self._add_text("transcript", audio.get("transcript"))
        data = decode_base64(audio.get("data"))
        if data:
            self._audio.append(data)
        return bool(data) or has_token

    def _add_logprobs(self, logprobs: Any) -> None:
        for name, values in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(values, list):
                self._logprobs.setdefault(name, []).extend(values)
