"""Answers prompts by a script: JSON Lines of objects that map case ids, or globs of them, to answers.

An answer is a text, an Output object, or a list of these that repeats cycle through. The first matching key
in the file wins. The same file can be a judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path
from typing import Any

import msgspec

from proctor.errors import TargetError, UsageError
from proctor.model import MAX_ANSWER_BYTES, Output, Prompt, TargetSpec
from proctor.targets.context import TargetContext, check_size
from proctor.targets.entries import FILE_FIELDS, read_file_path
from proctor.targets.kind import TargetKind

_LINE_DECODER = msgspec.json.Decoder(dict[str, Any])
_GLOB = re.compile(r"[*?\[]")


class ScriptedTarget:
    """Answers by case id."""

    def __init__(
        self,
        name: str,
        rules: list[tuple[str, tuple[Output, ...]]],
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._name = name
        self._max_answer_bytes = max_answer_bytes
        self._exact: dict[str, tuple[int, tuple[Output, ...]]] = {}
        self._globs: list[tuple[int, re.Pattern[str], tuple[Output, ...]]] = []
        for rank, (key, answers) in enumerate(rules):
            self._exact.setdefault(key, (rank, answers))
            if _GLOB.search(key):
                self._globs.append((rank, re.compile(translate(key)), answers))

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the scripted answer to the prompt's case.

        Raises:
            TargetError: no key matches.
        """
        case_id = prompt.case_id
        exact_rank, answers = self._exact.get(case_id, (None, None))
        for rank, pattern, glob_answers in self._globs:
            if exact_rank is not None and rank > exact_rank:
                break
            if pattern.match(case_id):
                answers = glob_answers
                break
        if answers is None:
            raise TargetError(f"No key of {self._name} matches case {case_id!r}.", kind="missing")
        output = answers[prompt.repeat % len(answers)]
        check_size(output.text, self._max_answer_bytes)
        return output

    async def aclose(self) -> None:
        """Does nothing: nothing was started."""


async def open_target(spec: TargetSpec, context: TargetContext) -> ScriptedTarget:
    """Opens the script of a specification of kind `scripted`.

    Raises:
        UsageError: the file cannot be read or is not a script.
    """
    return ScriptedTarget(spec.model, list(_read_rules(spec.model)), context.max_answer_bytes)


def first_case(path: str) -> str:
    """Returns a case that a script has an answer for; empty if there is none.

    Raises:
        UsageError: the file cannot be read or is not a script.
    """
    return next((key for key, _ in _read_rules(path)), "")


def _read_rules(path: str) -> Iterator[tuple[str, tuple[Output, ...]]]:
    try:
        # Not splitlines(): a JSON string may contain separators that end no line in JSON Lines.
        lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise UsageError(f"The script {path!r} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _LINE_DECODER.decode(line)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path}:{number}: The line is not a JSON object of answers: {error}."
            ) from error
        for key, value in row.items():
            yield key, _parse_answers(value, f"{path}:{number}: The answer to {key!r}")


def _parse_answers(value: Any, where: str) -> tuple[Output, ...]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UsageError(f"{where} is an empty list. Write at least one answer.")
    try:
        return tuple(
            Output(text=item) if isinstance(item, str) else msgspec.convert(item, Output) for item in values
        )
    except msgspec.ValidationError as error:
        raise UsageError(
            f'{where} is neither a text nor an output such as {{"text": "4"}}: {error}.'
        ) from error


SCRIPTED = TargetKind(
    name="scripted",
    open_target=open_target,
    syntax="scripted:FILE",
    summary="answers by case id or glob",
    file_fields=FILE_FIELDS,
    required_fields=tuple(FILE_FIELDS),
    read_entry=read_file_path,
    model_is_file=True,
    is_cacheable=False,
    is_instant=True,
    reads_case_ids=True,
    first_case=first_case,
    is_free=True,
)
