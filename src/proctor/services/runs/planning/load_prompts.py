"""Reads the prompts that a request names: template files of text, or of messages with roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from proctor.codec import template_digest
from proctor.dialects.shared.yaml_files import parse_json, parse_yaml
from proctor.errors import SuiteError, UsageError
from proctor.model import Message, PromptTemplate
from proctor.prompts.fill import is_system_prompt, list_placeholders
from proctor.prompts.templates import BadTemplate, parse_template
from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.request import split_prompt_word
from proctor.validation import FieldReader, ProblemLog, has_surrogates, json_type

MAX_PROMPT_BYTES: Final = 4 * 1024 * 1024
ROLES: Final = ("system", "developer", "user", "assistant")
_MESSAGE_FIELDS: Final = ("role", "content", "name")
_YAML_ENDINGS: Final = (".yaml", ".yml")
_MARKDOWN_ENDINGS: Final = (".md", ".markdown")
_ROLE_HEADING: Final = re.compile(
    rf"^#{{1,6}}[ \t]+({'|'.join(ROLES)})[ \t]*:?[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_CODE_BLOCK: Final = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)


def load_prompts(
    words: Sequence[str | PromptTemplate], context: PlanningContext
) -> tuple[PromptTemplate, ...]:
    """Returns the prompts of a request, in order.

    Args:
        words: each a file, `NAME=FILE`, or the name of a prompt of a stored run; or a prompt as it is.
        context: has the store; takes a warning for two prompts with the same text, and the files that were
            read.

    Raises:
        SuiteError: a file is no prompt; carries all problems of the first such file.
        UsageError: a file cannot be read, or two prompts have the same name.
    """
    prompts: dict[str, PromptTemplate] = {}
    names_by_digest: dict[str, str] = {}
    for word in words:
        prompt = word if isinstance(word, PromptTemplate) else _load_file(word, context)
        if prompt.name in prompts:
            raise UsageError(
                f"Two prompts are named {prompt.name!r}. Give one of them another name: --prompt NAME=FILE."
            )
        digest = template_digest(prompt)
        if digest in names_by_digest:
            context.warn(f"The prompts {names_by_digest[digest]!r} and {prompt.name!r} have the same text.")
        names_by_digest[digest] = prompt.name
        prompts[prompt.name] = prompt
    return tuple(prompts.values())


def find_stored_prompt(store: Store, name: str) -> PromptTemplate | None:
    """Returns the prompt of that name of the newest run that has one."""
    prompts = (run.prompt for run in store.runs() if run.prompt is not None)
    return next((prompt for prompt in prompts if prompt.name == name), None)


def list_stored_prompts(store: Store) -> dict[str, PromptTemplate]:
    """Returns the prompts of stored runs by their names, each as its newest run has it, newest first."""
    prompts: dict[str, PromptTemplate] = {}
    for run in store.runs():
        if run.prompt is not None:
            prompts.setdefault(run.prompt.name, run.prompt)
    return prompts


def _load_file(word: str, context: PlanningContext) -> PromptTemplate:
    name, file = split_prompt_word(word)
    path = Path(file)
    if not name:
        raise UsageError(f"--prompt {word!r} has an empty name. Write NAME=FILE, or just the file.")
    stored = None if file != word or path.exists() else find_stored_prompt(context.store, word)
    if stored is not None:
        message = f"There is no file {word!r}, so the prompt of that name in the store is used."
        context.listen(events.StatusMessage(message))
        return stored
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_PROMPT_BYTES + 1)
    except FileNotFoundError:
        hint = " To use a text as a prompt, save it in a file." if " " in word or "{{" in word else ""
        raise UsageError(
            f"There is no prompt file {str(path)!r}. Write --prompt FILE or --prompt NAME=FILE.{hint}"
        ) from None
    except OSError as error:
        raise UsageError(
            f"The prompt file {str(path)!r} cannot be read: {error.strerror or error}."
        ) from None
    if len(data) > MAX_PROMPT_BYTES:
        raise UsageError(
            f"The prompt file {str(path)!r} is larger than 4 MiB. Check that it is the right file."
        )
    if context.files is not None:
        context.files.add(path)
    return parse_prompt(name, str(path), data)


def parse_prompt(name: str, path: str, data: bytes) -> PromptTemplate:
    """Returns the prompt in a file.

    YAML and JSON have a text, a list of messages, or an object with `messages`. Markdown that begins with a
    heading such as `# system` has a message under each heading of that kind. Any other file is the text of
    one message by the user.

    Args:
        name: the name of the prompt.
        path: the file, for its ending and for messages.
        data: its content.

    Raises:
        SuiteError: it is no prompt, or would send the same text for each case.
    """
    notes = ProblemLog(path, 1, "Prompt")
    return _make_prompt(name, list(_read_messages(path, data, notes)), notes)


def prompt_from_value(name: str, value: Any) -> PromptTemplate:
    """Returns the prompt of a text, or of a list of messages, as a file of JSON has it.

    Raises:
        SuiteError: it is no prompt, or would send the same text for each case.
    """
    notes = ProblemLog(f"prompt {name!r}", 1, "Prompt")
    return _make_prompt(name, list(_read_value(value, notes, "prompt")), notes)


def check_prompt(prompt: PromptTemplate) -> PromptTemplate:
    """Returns a prompt that was made in a program, checked as one in a file is.

    Raises:
        SuiteError: it is no prompt, or would send the same text for each case.
    """
    checked = prompt_from_value(prompt.name, [to_builtins(message) for message in prompt.messages])
    return replace(checked, is_literal=prompt.is_literal)


def _make_prompt(name: str, messages: Sequence[tuple[Message, int]], notes: ProblemLog) -> PromptTemplate:
    for message, line in messages:
        if has_surrogates(message.content):
            notes.error(
                "bad-encoding", "The prompt has half of a character. Write the character itself.", line=line
            )
        try:
            parse_template(message.content)
        except BadTemplate as error:
            notes.error(error.code, f"The prompt {error}", line=line + error.line)
    prompt = PromptTemplate(name=name, messages=tuple([message for message, _ in messages]))
    if not notes.has_errors:
        if not any(message.content.strip() for message in prompt.messages):
            notes.error(
                "empty-prompt",
                "The prompt is empty. Write its text, with `{{ input }}` for the input of a case.",
            )
        elif not is_system_prompt(prompt) and not any(list_placeholders(prompt)):
            notes.error(
                "constant-prompt",
                "The prompt has no `{{ variable }}`, so each case would send the same text. Write `{{ "
                "input }}` where the input of a case belongs. To send the text before the input, give "
                "it the role `system`, for example with the heading `# system` in Markdown.",
            )
    if notes.has_errors:
        raise SuiteError(notes.problems)
    return prompt


def _read_messages(path: str, data: bytes, notes: ProblemLog) -> Iterator[tuple[Message, int]]:
    """Yields the messages of a file, each with the line of its text."""
    ending = Path(path).suffix.lower()
    if ending in _YAML_ENDINGS or ending == ".json":
        value = (parse_json if ending == ".json" else parse_yaml)(data, notes)
        if not notes.has_errors:
            yield from _read_value(value, notes)
        return
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notes.error(
            "bad-encoding",
            f"Byte {error.start + 1} of the file is not UTF-8. Save the file as UTF-8.",
            line=line,
        )
        return
    headings = _list_headings(text) if ending in _MARKDOWN_ENDINGS else []
    if not headings or text[: headings[0].start()].strip():
        yield Message(role="user", content=text.strip()), _first_line(text, 0)
        return
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        content = text[heading.end() : end]
        line = _first_line(text, heading.end())
        if not content.strip():
            notes.error(
                "empty-prompt", f"There is no text under the heading {heading[0].strip()!r}.", line=line
            )
        yield Message(role=heading[1].lower(), content=content.strip()), line


def _list_headings(text: str) -> list[re.Match[str]]:
    """Returns the headings of roles, without those that are examples in a block of code."""
    blocks = [block.span() for block in _CODE_BLOCK.finditer(text)]
    return [
        heading
        for heading in _ROLE_HEADING.finditer(text)
        if not any(start < heading.start() < end for start, end in blocks)
    ]


def _first_line(text: str, start: int) -> int:
    """Returns the line of the first text after a position, from 1."""
    rest = text[start:]
    return text.count("\n", 0, start + len(rest) - len(rest.lstrip())) + 1


def _read_value(value: Any, notes: ProblemLog, what: str = "file") -> Iterator[tuple[Message, int]]:
    if isinstance(value, dict) and value.keys() == {"messages"}:
        value = value["messages"]
    if isinstance(value, str):
        yield Message(role="user", content=value.strip()), 1
    elif isinstance(value, list) and value:
        lines = getattr(value, "lines", [1] * len(value))
        for place, (item, line) in enumerate(zip(value, lines, strict=True)):
            own = ProblemLog(notes.path, line, "Prompt")
            message = _read_message(item, f"[{place}]", own)
            notes.extend(own)
            if message is not None:
                yield message, line
    else:
        actual = "empty" if value is None or value == [] else json_type(value)
        notes.error(
            "not-a-prompt",
            f"The {what} is {actual}; it must be a text, or a list of messages with `role` and `content`.",
        )


def _read_message(item: Any, field: str, notes: ProblemLog) -> Message | None:
    if not isinstance(item, dict):
        notes.report_wrong_type(field, item, "an object with `role` and `content`")
        return None
    fields = FieldReader(item, notes, field + ".")
    fields.drop_null("name")
    role = fields.choice("role", ROLES)
    content = fields.required_text("content")
    name = fields.text("name")
    fields.finish(_MESSAGE_FIELDS)
    return Message(role=role, content=content, name=name)
