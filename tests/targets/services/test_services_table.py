"""The requests to each service for each parameter, recorded on loopback, against the tables of the page.

Each row of the tables in docs/reference/targets/services.md is made of the difference between two recorded
requests: with a parameter or an ability, and without. With PROCTOR_REWRITE_DOCS=1 and `-n 0` the
rows are written again (twice for a new kind); read the difference.
A kind that has an address gets its rows without another line here.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Attachment, Message, Params, Prompt, Tool
from proctor.targets import TARGETS, check_params_taken, iter_kinds
from proctor.targets.context import TargetContext
from proctor.targets.kind import TargetKind
from proctor.targets.parse import build_api_spec
from support.endpoints import serve_app
from support.interfaces import InterfacesServer
from support.waiting import PATIENCE_S

PAGE = Path(__file__).parents[3] / "docs" / "reference/targets/services.md"
KINDS = [kind for kind in iter_kinds() if kind.has_address]
PLAIN = Params(temperature=None, seed=None)
ENVIRON = {
    "PROCTOR_API_KEY": "the-key-of-loopback",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_REGION": "us-east-1",
    "GOOGLE_CLOUD_PROJECT": "project",
    "GOOGLE_CLOUD_LOCATION": "global",
    "VERTEX_ACCESS_TOKEN": "the-token-of-loopback",
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
IMAGE = Attachment(kind="image", path="a.png", media_type="image/png", data=b"\x89PNG")
PDF = Attachment(kind="file", path="a.pdf", media_type="application/pdf", data=b"%PDF-1.7")
SOUND = Attachment(kind="audio", path="a.wav", media_type="audio/wav", data=b"RIFF0000WAVE")
SYSTEM = "Be brief."


def ask(*parts: str | Attachment, system: str = "", **fields: Any) -> Prompt:
    messages = (
        *((Message(role=system, content=SYSTEM),) if system else ()),
        Message(role="user", content="2 + 2?", parts=("2 + 2?", *parts) if parts else ()),
    )
    return Prompt(messages=messages, **fields)


PARAMS: Mapping[str, Mapping[str, Params]] = {
    "Sampling": {
        "temperature": replace(PLAIN, temperature=0.5),
        "max_tokens": replace(PLAIN, max_tokens=7),
        "seed": replace(PLAIN, seed=5),
        "top_p": replace(PLAIN, top_p=0.9),
        "top_k": replace(PLAIN, top_k=40),
        "stop": replace(PLAIN, stop=("END",)),
        "presence_penalty": replace(PLAIN, presence_penalty=0.5),
        "frequency_penalty": replace(PLAIN, frequency_penalty=0.5),
    },
    "Thinking and answers": {
        "reasoning_effort": replace(PLAIN, reasoning_effort="low"),
        "thinking_budget": replace(PLAIN, thinking_budget=2048),
        "verbosity": replace(PLAIN, verbosity="low"),
        "logprobs": replace(PLAIN, logprobs=2),
        "service_tier": replace(PLAIN, service_tier="flex"),
        "prompt_cache": replace(PLAIN, prompt_cache=True),
        "stream": replace(PLAIN, stream=True),
        "responses": replace(PLAIN, api_format="responses"),
    },
}
ABILITIES: Mapping[str, Prompt] = {
    "system": ask(system="system"),
    "developer": ask(system="developer"),
    "JSON": ask(json_answer=True),
    "JSON Schema": ask(response_schema=SCHEMA),
    "tools": ask(tools=(Tool(name="weather", description="The weather.", parameters=SCHEMA),)),
    "image": ask(IMAGE),
    "PDF": ask(PDF),
    "audio": ask(SOUND),
}
LONG = ask(system="system", tools=ABILITIES["tools"].tools)
"""A prompt with all that a service can keep in its cache."""
NOT_SUPPORTED = "–"
NOT_APPLIED = "not applied"
CACHE_MARK = re.compile(r"\bcache(_control|Point)\b")


class Record(NamedTuple):
    """One request, and what its answer says that was not applied."""

    path: str
    headers: Mapping[str, str]
    body: Any
    refused_params: tuple[str, ...]


class Recorder(InterfacesServer):
    """The server, which also opens targets of any kind that call it."""

    def __init__(self, context: TargetContext) -> None:
        super().__init__()
        self._context = context

    async def record(self, kind: TargetKind, params: Params, prompt: Prompt) -> Record | None:
        """The request for a prompt; None if the target refuses the prompt before the first call."""
        before = len(self.requests)
        spec = build_api_spec(f"{kind.name}:m", kind, "m", f"{self.url}/{kind.name}", params, ENVIRON)
        files = [part for part in prompt.messages[-1].parts if isinstance(part, Attachment)]
        if not all(kind.takes(file.medium, file.media_type) for file in files):
            return None
        try:
            check_params_taken(spec)
            target = await TARGETS.get(spec.kind).open_target(spec, self._context)
        except UsageError:
            return None
        try:
            output = await target.answer(prompt)
        except TargetError as error:
            if error.kind != "unsupported":
                raise
            return None
        finally:
            await target.aclose()
        assert output.text == "4"
        (request,) = self.requests[before:]
        return Record(request.path.partition("?")[0], request.headers, request.body, output.refused_params)


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    context = TargetContext(ENVIRON, timeout_s=PATIENCE_S)
    recorder = Recorder(context)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", recorder.handle)
    async with serve_app(app) as recorder.url:
        yield recorder
    await context.aclose()


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a body by its path, such as `generationConfig.topP`; an item has that of its list."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from flatten(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for part in value:
            yield from flatten(part, path)
    else:
        yield path, value


def describe_param(name: str, plain: Record, record: Record | None) -> str:
    """How a parameter was sent: as a field of its name, under other names, or not at all."""
    if record is None:
        return NOT_SUPPORTED
    if record.path != plain.path:
        return f"`{re.split(r'[/:]', record.path)[-1]}`"
    fields = find_new_fields(plain, record)
    if headers := sorted(record.headers.keys() - plain.headers.keys() - {"connection"}):
        return ", ".join(f"header `{header}`" for header in headers)
    if not fields:
        assert name in record.refused_params, f"{name} is neither sent nor refused nor reported"
        return NOT_APPLIED
    fields = {path for path in fields if CACHE_MARK.search(path)} or fields
    return "sent" if fields == {name} else ", ".join(f"`{path}`" for path in sorted(fields))


def find_new_fields(plain: Record, record: Record) -> set[str]:
    """The paths whose values differ from the plain request."""
    old = list(flatten(plain.body))
    return {path for path, value in flatten(record.body) if (path, value) not in old}


def describe_ability(prompt: Prompt, plain: Record, record: Record | None) -> str:
    """How a part of a prompt was sent: the role, the new field, or the type of the new part."""
    if record is None:
        return NOT_SUPPORTED
    if prompt.messages[0].content == SYSTEM:
        return f"`{find_role(record.body, prompt.messages[0].role)}`"
    parts = prompt.messages[-1].parts
    if parts:
        return f"`{name_part(find_parts(record.body)[-1])}`"
    fields = {path.split(".")[0] for path in find_new_fields(plain, record)}
    if not fields:
        assert "response_format" in record.refused_params
        return NOT_APPLIED
    return ", ".join(f"`{path}`" for path in sorted(fields))


def find_role(body: dict[str, Any], role: str) -> str:
    """The role of the message with the system prompt, or the field that it is in."""
    for message in body.get("messages") or body.get("input") or ():
        if isinstance(message, dict) and SYSTEM in repr(message.get("content")):
            return str(message["role"])
    return next(name for name, value in body.items() if SYSTEM in repr(value))


def find_parts(body: dict[str, Any]) -> list[Any]:
    """The parts of the last message."""
    messages: list[Any] = body.get("messages") or body.get("input") or body["contents"]
    return list(messages[-1].get("content") or messages[-1]["parts"])


def name_part(part: dict[str, Any]) -> str:
    """The type of a part, or its only field."""
    return str(part.get("type") or next(iter(part)))


async def make_rows(recorder: Recorder, kind: TargetKind) -> dict[str, list[str]]:
    """The cells of a kind in each table."""
    plain, long = await recorder.record(kind, PLAIN, ask()), await recorder.record(kind, PLAIN, LONG)
    assert plain is not None
    assert long is not None
    rows: dict[str, list[str]] = {title: [] for title in PARAMS}
    for title, columns in PARAMS.items():
        for name, params in columns.items():
            is_cache = name == "prompt_cache"
            record = await recorder.record(kind, params, LONG if is_cache else ask())
            rows[title].append(describe_param(name, long if is_cache else plain, record))
    rows["Prompts"] = [
        describe_ability(prompt, plain, await recorder.record(kind, PLAIN, prompt))
        for prompt in ABILITIES.values()
    ]
    return rows


def read_table(text: str, title: str) -> list[str]:
    """The lines of the table under a heading."""
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")]


def write_table(title: str, lines: list[str]) -> None:
    """Replaces the table under a heading."""
    text = PAGE.read_text(encoding="utf-8")
    before, heading, table = text.partition(f"\n## {title}\n")
    old, new = "\n".join(read_table(text, title)), "\n".join(lines)
    PAGE.write_text(before + heading + table.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("title", [*PARAMS, "Prompts"])
def test_a_table_has_one_row_for_each_kind_with_an_address_in_their_order(title: str) -> None:
    lines = read_table(PAGE.read_text(encoding="utf-8"), title)
    rows = {line.split("|")[1].strip(): line for line in lines[2:]}
    columns = [f"`{name}`" for name in PARAMS[title]] if title in PARAMS else list(ABILITIES)
    expected = [
        f"| | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(rows.get(f"`{kind.name}`", f"| `{kind.name}` |") for kind in KINDS),
    ]
    if os.environ.get("PROCTOR_REWRITE_DOCS"):
        write_table(title, expected)
    assert lines == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_the_row_of_a_service_is_what_it_is_sent(recorder: Recorder, kind: TargetKind) -> None:
    rows = await make_rows(recorder, kind)
    expected = {title: f"| `{kind.name}` | {' | '.join(cells)} |" for title, cells in rows.items()}
    text, lines_on_page = PAGE.read_text(encoding="utf-8"), {}
    for title, row in expected.items():
        lines = read_table(text, title)
        lines_on_page[title] = next((line for line in lines if line.startswith(f"| `{kind.name}` |")), "")
        if os.environ.get("PROCTOR_REWRITE_DOCS"):
            write_table(title, [row if line == lines_on_page[title] else line for line in lines])
    assert lines_on_page == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_what_a_service_does_not_take_is_an_error_that_says_what_it_takes(kind: TargetKind) -> None:
    columns = {name: params for table in PARAMS.values() for name, params in table.items()}
    for name, params in columns.items():
        further = list(params.further)
        if not further or further[0] in kind.all_params:
            continue
        spec = build_api_spec(f"{kind.name}:m", kind, "m", "http://127.0.0.1:9/v1", params, ENVIRON)
        message = "support only `api_format: chat`" if name == "responses" else f"do not accept `{name}`"
        with pytest.raises(UsageError, match=message):
            check_params_taken(spec)
