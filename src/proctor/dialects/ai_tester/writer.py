"""Writes dialect ai_tester as a folder of Markdown files: a test for each case, and evaluators in `prompts/`.

Each test is written as well as possible and read back; differences are noted field by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import assertion_digest, encode
from proctor.dialects.ai_tester.prompts import FOLDER
from proctor.dialects.ai_tester.reader import KEPT, check_of
from proctor.dialects.ai_tester.syntax import ENDING
from proctor.dialects.ai_tester.writer_files import (
    NO_PROMPTS,
    README,
    Written,
    definitions,
    evaluator_files,
    in_reserved_folder,
    read,
)
from proctor.dialects.shared.losses import Unsaid, note_suite
from proctor.dialects.shared.output_files import Beside, attached
from proctor.model import Assertion, Attachment, Case, Message, Problem, Suite
from proctor.protocols import Rendered

NAME: Final = "ai_tester"
GRADER: Final = "instructions"
REFUSED: Final = (
    "The check of this test could not be said here; `proctor` above keeps it. Every answer fails."
)
"""Replaces instructions that cannot be expressed, so that no test passes by losing them."""

_NOT_OF_SUITES: Final = ("description", "declared_version", "pass_rule", "repeats_rule", "notes")
_NOT_OF_CASES: Final = (
    *("expected", "category", "repeats", "pass_rule", "target", "only_targets", "workspace", "variables"),
    "notes",
)
_DEFINED: Final = ("structuredResponseSchema", "availableTools")
_PROVENANCE: Final = ("prompt", "replacements")
"""Metadata that says which prompt and which values a case was made from."""
_WHY: Final = {
    "input": "it has a system text and turns of user and assistant, the user's first and last. They have no "
    "white space around them, no line that begins a turn, no `{{name}}` and no file of an unknown ending.",
    "criteria": "instructions are a text without white space around it, without a line `---` and `{{name}}`.",
    "tags": "tags are different from each other, and `_evaluator` is none.",
    "form": "a schema stands without tools, both are valid, and JSON is asked for by the tag `_json_mode`.",
}
_BAD_PART: Final = re.compile(r"\.|.*[\\\x00-\x1f\x7f]|$", re.DOTALL)
"""Names of files and folders that are hidden, or invalid on some systems."""
_LONGEST_NAME: Final = 255
_MARKER: Final = re.compile(r"^(?=# [👤🤖])", re.MULTILINE)


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[Rendered | Problem]:
    """Yields the suite as the files of a folder. See `proctor.protocols.Renderer`."""
    header = Unsaid(suite, NAME, lossy=lossy)
    note_suite(header, suite, _NOT_OF_SUITES)
    yield from header.problems
    remaining = iter(cases)
    first = next(remaining, None)
    evaluators = [] if first is None else _evaluators(first)
    files = evaluator_files(evaluators) if evaluators else None
    assertion = check_of([] if files is None else evaluators)
    siblings, above = Beside(), header.kept
    yield from _render_files(siblings.new(files or {README: NO_PROMPTS}))
    for case in () if first is None else chain((first,), remaining):
        draft = _Draft(case, assertion, siblings, lossy=lossy)
        draft.settle(above)
        yield from (*draft.unsaid.problems, *draft.refusal.problems)
        if not draft.refused:
            yield from _render_files(siblings.new(draft.files()))
            above = {}


def _render_files(files: Iterable[tuple[str, bytes]]) -> Iterator[Rendered]:
    return (Rendered(path, data) for path, data in files)


def _evaluators(case: Case) -> list[Any]:
    evaluators: Any = next(
        (assertion.params for assertion in case.assertions if assertion.grader == GRADER), {}
    ).get("evaluators")
    return evaluators if isinstance(evaluators, list) else []


class _Draft:
    """One case while it is rendered."""

    def __init__(self, case: Case, assertion: Assertion, siblings: Beside, *, lossy: bool) -> None:
        """Renders the case as far as the format allows.

        Args:
            case: what to write.
            assertion: the one check of every test in the folder.
            siblings: the files written so far.
            lossy: whether what cannot be expressed is left out.
        """
        self._case = case
        self._siblings = siblings
        self._lossy = lossy
        self.unsaid = Unsaid(case, NAME, lossy=lossy)
        self.refusal = Unsaid(case, NAME, lossy=False)
        """What cannot be written, not even in a lossy conversion."""
        self._path = case.id + ENDING
        fields, self._defined = definitions(case.form)
        self._attached: dict[str, bytes] = {}
        system, turns = _turns(case.input)
        front = {"tags": list(case.tags) or None, **fields, "lint": case.metadata.get("lint")}
        self._front: dict[str, Any] = {name: value for name, value in front.items() if value is not None}
        self._test = Written(system=system, turns=turns, instructions=case.criteria or REFUSED)
        self.unsaid.note_each(_NOT_OF_CASES)
        if not case.criteria:
            self.unsaid.note("criteria", "an answer is judged by instructions, and there are none.")
        self._note_assertions(assertion)
        self._note_metadata()

    @property
    def refused(self) -> bool:
        """Whether the case cannot be written."""
        return self.unsaid.refused or self.refusal.refused

    def files(self) -> dict[str, bytes]:
        """Returns the test and the files that it uses, by path."""
        return {self._path: self._build_test().data(), **self._attached, **self._defined}

    def settle(self, above: Mapping[str, Any]) -> None:
        """Reads the test back, and notes and drops what differs.

        Args:
            above: what was lost of the suite, which this case keeps.
        """
        if not _is_path(self._path) or self._siblings.fitting({self._path: b""}) is None:
            why = "an id is the path of a file of its own, such as `folder/name`, and not in `prompts`."
            self.refusal.note("id", why)
            return
        files = attached(self._case.input)
        if files is None or not self._fit(files):
            self.unsaid.note(
                "input", "a file is attached by a path in the suite's folder that is free for it."
            )
            self._lose("input")
        else:
            self._attached = files
        self._keep(above)
        if self._differing(self._build_test()):
            self._diagnose()
            self._keep(above)
            wrong = [] if self.unsaid.refused else self._differing(self._build_test())
            for name, why in wrong[:1]:
                self.refusal.note(name, why)

    def _fit(self, files: Mapping[str, bytes]) -> bool:
        """Whether the files conflict with neither the test nor other files."""
        together = {**files, self._path: b""}
        return not (
            self._path in files or in_reserved_folder(files) or self._siblings.fitting(together) is None
        )

    def _build_test(self) -> Written:
        return replace(self._test, front=self._front)

    def _keep(self, above: Mapping[str, Any]) -> None:
        losses = self.unsaid.metadata(above).get(KEPT)
        if losses is not None:
            self._front[KEPT] = losses

    # --- reading -------------------------------------------------------------------------------------------

    def _differing(self, test: Written) -> list[tuple[str, str]]:
        """Returns the fields that would be read differently, without those already lost, and why."""
        case, wrong = read(self._path, test, {**self._attached, **self._defined})
        if case is None:
            return [("id", f"the test would be refused. {wrong.message if wrong else ''}".rstrip())]
        return [
            (name, _WHY.get(name, "it would be read as another one."))
            for name in ("id", *_WHY)
            if name not in self.unsaid.kept
            and encode(getattr(case, name)) != encode(getattr(self._case, name))
        ]

    def _diagnose(self) -> None:
        """Reads each part of the test alone, and drops the parts that differ."""
        for name in _WHY:
            if name in self.unsaid.kept:
                continue
            case, _ = read(self._path, self._part(name), {**self._attached, **self._defined})
            if case is None or encode(getattr(case, name)) != encode(getattr(self._case, name)):
                self.unsaid.note(name, _WHY[name])
                self._lose(name)

    def _part(self, name: str) -> Written:
        """Returns a test with only this part of the case."""
        if name == "input":
            return Written(system=self._test.system, turns=self._test.turns)
        if name == "criteria":
            return Written(instructions=self._test.instructions)
        fields = ("tags",) if name == "tags" else ("tags", *_DEFINED)
        return Written(front={field: self._front[field] for field in fields if field in self._front})

    def _lose(self, name: str) -> None:
        """Replaces a part by something that can be expressed."""
        if name == "input":
            self._attached = {}
            self._test = replace(self._test, system="", turns=(("user", _strip_markup(self._case)),))
        elif name == "criteria":
            self._test = replace(self._test, instructions=REFUSED)
        elif name == "tags":
            self._front.pop("tags", None)
        else:
            self._defined = {}
            for field in _DEFINED:
                self._front.pop(field, None)

    # --- what the format has no place for ------------------------------------------------------------------

    def _note_assertions(self, renderable: Assertion) -> None:
        is_rendered = False
        for place, assertion in enumerate(self._case.assertions):
            if not is_rendered and assertion_digest(assertion) == assertion_digest(renderable):
                is_rendered = True
            elif assertion.grader == GRADER:
                why = (
                    "the one check of a test counts 1, is asked by the evaluators that all tests have, and "
                    'has the rule "mean".'
                )
                self.unsaid.note(f"assertions[{place}]", why)
            else:
                why = f"an answer is judged by instructions, and by no check such as {assertion.grader!r}."
                self.unsaid.note(f"assertions[{place}]", why)
        if not self._case.assertions:
            self.unsaid.note("assertions", "an answer is always judged by instructions.")
        self.unsaid.note_labels(self._case.assertions)

    def _note_metadata(self) -> None:
        for name in self._case.metadata:
            if name in _PROVENANCE:
                why = "each version is a file of its own, which has its prompt and its values in its texts."
                (self.unsaid.note if self._lossy else self.unsaid.doubt)(f"metadata.{name}", why)
            elif name == "lint" and not _is_lint(self._case.metadata[name]):
                self.unsaid.note("metadata.lint", "`lint` is `ignore` or a list of codes of rules.")
                self._front.pop(name, None)
            elif name not in ("file", "lint", KEPT):
                self.unsaid.note(f"metadata.{name}", "a test has no such field.")


# --- texts -------------------------------------------------------------------------------------------------


def _turns(messages: tuple[Message, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Returns the system text, and the role and text of each turn."""
    system = messages[0].content if messages and messages[0].role == "system" else ""
    others = messages[1:] if system else messages
    return system, tuple([(_role(message), _text(message)) for message in others])


def _role(message: Message) -> str:
    return "assistant" if message.role == "assistant" else "user"


def _text(message: Message) -> str:
    if not message.parts:
        return message.content
    return message.between.join(
        f"`{{{{_file:{part.path}}}}}`" if isinstance(part, Attachment) else part for part in message.parts
    )


def _strip_markup(case: Case) -> str:
    """Returns all texts of a case as one text without markup."""
    text = "\n\n".join(message.content.strip() for message in case.input).strip() or case.id
    return _MARKER.sub("> ", text.replace("{{", "{ {")).strip()


def _is_lint(value: Any) -> bool:
    return value == "ignore" or (isinstance(value, list) and all(isinstance(code, str) for code in value))


def _is_path(path: str) -> bool:
    *folders, name = path.split("/")
    parts = (*folders, name)
    return (
        not any(_BAD_PART.match(part) or len(part.encode()) > _LONGEST_NAME for part in parts)
        and FOLDER not in folders
        and name.lower() != "readme.md"
    )
