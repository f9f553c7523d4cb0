"""What a model at an endpoint can do, each with the small request that shows it. Pure.

In: nothing. Out: prompts, and for each answer whether it shows the ability.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from proctor.model import Attachment, Case, Message, Output, Prompt, Record, Tool

AbilityStatus = Literal["works", "not shown", "refused", "not offered", "failed"]
"""`not shown`: it answered, but not as the ability demands. `refused`: the endpoint refused the request.
`not offered`: this kind of target cannot send it, so no request was made. `failed`: the call failed
otherwise."""
ABILITIES_NAME: Final = "abilities.json"
"""The file beside a store with the newest checks of each target."""
MAX_TOKENS: Final = 1024
"""The limit of an answer; a model that thinks needs some hundreds before it says a word."""
THINKING_TOKENS: Final = 1024
PARAMETER_ABILITIES: Final = {
    "reasoning_effort": "reasoning",
    "thinking_budget": "reasoning",
    "stream": "stream",
    "logprobs": "logprobs",
}
"""The abilities that parameters need, by the names of the parameters."""
ABILITY_ACTIONS: Final = {
    "system": "follow a system prompt",
    "schema": "fit its answer to a schema",
    "tools": "call a tool",
    "image": "read an image",
    "pdf": "read a PDF",
    "audio": "take audio",
    "reasoning": "show its reasoning",
    "stream": "stream its answer",
    "logprobs": "report log-probabilities",
}
"""What a target with an ability can do, for each ability that a run may need."""


class AbilityCheck(Record, frozen=True, kw_only=True):
    """The result of one check of one ability."""

    ability: str
    status: AbilityStatus
    detail: str = ""
    """Why it does not work, as a sentence."""
    cost_usd: float | None = None
    """None if the price is unknown; 0 if no request was made."""
    latency_ms: float | None = None
    at: datetime


class Ability(Struct, frozen=True, kw_only=True):
    """One thing that a model may be able to do."""

    name: str
    prompt: Prompt
    params: dict[str, Any] = {}
    """The parameters of the target for this request."""
    judge: Callable[[Output], str | None]
    """Returns why an answer does not show the ability, as a sentence; None if it does."""


def list_abilities(case: Case) -> Iterable[str]:
    """Returns the names of the abilities that a case needs of the model."""
    messages = case.input
    is_plain = case.form is None and len(messages) == 1 and messages[0].role == "user"
    return () if is_plain and not messages[0].parts else _find_abilities(case)


def _find_abilities(case: Case) -> Iterator[str]:
    if any(message.role in ("system", "developer") for message in case.input):
        yield "system"
    for message in case.input:
        if message.parts:
            yield from (part.medium for part in message.parts if isinstance(part, Attachment))
    if case.form is not None:
        if case.form.schema is not None:
            yield "schema"
        if case.form.tools:
            yield "tools"
        yield from (PARAMETER_ABILITIES[name] for name in case.form.params if name in PARAMETER_ABILITIES)


def _answers(output: Output) -> str | None:
    return None if output.text.strip() else "The answer is empty."


def _says(word: str) -> Callable[[Output], str | None]:
    def judge(output: Output) -> str | None:
        return (
            None if word in output.text.lower() else f"It answered {_quote(output.text)} instead of {word!r}."
        )

    return judge


def _fits_schema(output: Output) -> str | None:
    if "response_format" in output.refused_params:
        return "The endpoint does not support a schema for the answer."
    try:
        answer = json.loads(output.text)
    except ValueError:
        return f"It answered {_quote(output.text)}, which is not JSON."
    fits = isinstance(answer, dict) and answer.keys() == {"city"} and isinstance(answer["city"], str)
    return None if fits else f"It answered {_quote(output.text)}, which does not fit the schema."


def _calls_tool(output: Output) -> str | None:
    if "tools" in output.refused_params:
        return "The endpoint does not support tools."
    names = [call.name for call in output.tool_calls]
    return None if names == ["get_weather"] else f"It called no tool and answered {_quote(output.text)}."


def _thinks(output: Output) -> str | None:
    tokens = 0 if output.usage is None else output.usage.reasoning_tokens
    return (
        None
        if output.reasoning or tokens
        else "The answer came without reasoning and without reasoning tokens."
    )


def _streams(output: Output) -> str | None:
    return None if output.first_token_ms is not None else "The answer came in one piece."


def _has_logprobs(output: Output) -> str | None:
    return None if output.logprobs else "The answer came without log-probabilities."


def _quote(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 60 else flat[:59] + "…")


# --- files -------------------------------------------------------------------------------------------------


def _make_png() -> bytes:
    """Returns a red square of 64 by 64 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * 64) * 64
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def _make_pdf() -> bytes:
    """Returns a page that says: The password is heron."""
    text = b"BT /F1 24 Tf 72 700 Td (The password is heron.) Tj ET"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + trailer


def _make_wav() -> bytes:
    """Returns half a second of a square wave of 440 Hz: 8,000 samples a second, 16 bits, mono."""
    rate = 8_000
    samples = b"".join(
        struct.pack("<h", 8_000 if (place * 880 // rate) % 2 else -8_000) for place in range(rate // 2)
    )
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


# --- the abilities -----------------------------------------------------------------------------------------


def _prompt(text: str, *parts: Attachment, system: str = "", **fields: Any) -> Prompt:
    question = Message(role="user", content=text, parts=(text, *parts) if parts else ())
    messages = (Message(role="system", content=system), question) if system else (question,)
    return Prompt(messages=messages, case_id="check", **fields)


_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_TOOL: Final = Tool(
    name="get_weather",
    description="Returns the weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_READY: Final = "Reply with the word ready."


def make_abilities() -> tuple[Ability, ...]:
    """Returns all abilities that one answer shows, in the order in which they are reported."""
    image = Attachment(kind="image", path="square.png", media_type="image/png", data=_make_png())
    pdf = Attachment(kind="file", path="note.pdf", media_type="application/pdf", data=_make_pdf())
    audio = Attachment(kind="audio", path="tone.wav", media_type="audio/wav", data=_make_wav())
    return (
        Ability(name="text", prompt=_prompt(_READY), judge=_says("ready")),
        Ability(
            name="system",
            prompt=_prompt("What is 2 + 2?", system="Reply to every message with the single word heron."),
            judge=_says("heron"),
        ),
        Ability(
            name="schema",
            prompt=_prompt("Name the capital of Peru as JSON.", response_schema=_SCHEMA),
            judge=_fits_schema,
        ),
        Ability(
            name="tools",
            prompt=_prompt("What is the weather in Lima? Use the tool.", tools=(_TOOL,)),
            judge=_calls_tool,
        ),
        Ability(name="image", prompt=_prompt("Which colour is this? One word.", image), judge=_says("red")),
        Ability(
            name="pdf",
            prompt=_prompt("Which word is the password in this file? One word.", pdf),
            judge=_says("heron"),
        ),
        Ability(name="audio", prompt=_prompt("Is this speech or a tone? One word.", audio), judge=_answers),
        Ability(
            name="reasoning",
            prompt=_prompt("What is 17 times 23? Think first."),
            params={"reasoning_effort": "low"},
            judge=_thinks,
        ),
        Ability(name="stream", prompt=_prompt(_READY), params={"stream": True}, judge=_streams),
        Ability(name="logprobs", prompt=_prompt(_READY), params={"logprobs": 0}, judge=_has_logprobs),
    )
