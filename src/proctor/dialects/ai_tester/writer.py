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
from proctor.dialects.ai_tester.dialect import ENDING, PROMPTS_FOLDER, is_readme
from proctor.dialects.ai_tester.reader import LOSSES_FIELD, is_lint, make_assertion
from proctor.dialects.ai_tester.writer_files import (
    NO_PROMPTS_TEXT,
    README,
    MarkdownTest,
    is_in_reserved_folder,
    read_back,
    render_definitions,
    render_evaluators,
)
from proctor.dialects.shared.losses import LossReport, note_suite_losses
from proctor.dialects.shared.output_files import SiblingFiles, collect_attached_files
from proctor.model import Assertion, Attachment, Case, Message, Problem, Suite
from proctor.protocols import RenderedFile

DIALECT_NAME: Final = "ai_tester"
GRADER_NAME: Final = "instructions"
LOST_INSTRUCTIONS: Final = (
    "The check of this test could not be said here; `proctor` above keeps it. Every answer fails."
)
"""Replaces instructions that cannot be expressed, so that no test passes by losing them."""

_UNSUPPORTED_SUITE_FIELDS: Final = ("description", "declared_version", "pass_rule", "repeats_rule", "notes")
_UNSUPPORTED_CASE_FIELDS: Final = (
    *("expected", "category", "repeats", "pass_rule", "target", "only_targets", "workspace", "variables"),
    *("notes", "vars", "prefix", "suffix", "prompts"),
)
_DEFINITION_FIELDS: Final = ("structuredResponseSchema", "availableTools")
_PROVENANCE_FIELDS: Final = ("prompt", "replacements")
"""Metadata that says which prompt and which values a case was made from."""
_REASONS: Final = {
    "input": "it needs a system text and alternating turns of user and assistant, the first and the last "
    "by the user. They cannot have surrounding white space, a line that begins a turn, `{{name}}` or a "
    "file with an unknown extension.",
    "criteria": "grading instructions must be text without surrounding white space, a line `---` or "
    "`{{name}}`.",
    "tags": "tags must differ from each other, and `_evaluator` is reserved.",
    "form": "a schema cannot be combined with tools, both must be valid, and the tag `_json_mode` turns on "
    "JSON.",
}
_BAD_PATH_PART: Final = re.compile(r"\.|.*[\\\x00-\x1f\x7f]|$", re.DOTALL)
"""Names of files and folders that are hidden, or invalid on some systems."""
_MAX_NAME_BYTES: Final = 255
_TURN_START: Final = re.compile(r"^(?=# [👤🤖])", re.MULTILINE)


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    """Yields the suite as the files of a folder. See `proctor.protocols.Renderer`."""
    header = LossReport(suite, DIALECT_NAME, lossy=lossy)
    note_suite_losses(header, suite, _UNSUPPORTED_SUITE_FIELDS)
    yield from header.problems
    remaining = iter(cases)
    first = next(remaining, None)
    evaluators = [] if first is None else _get_evaluators(first)
    files = render_evaluators(evaluators) if evaluators else None
    assertion = make_assertion([] if files is None else evaluators)
    siblings, above = SiblingFiles(), header.lost_fields
    yield from _render_files(siblings.add(files or {README: NO_PROMPTS_TEXT}))
    for case in () if first is None else chain((first,), remaining):
        draft = _MarkdownDraft(case, assertion, siblings, lossy=lossy)
        draft.finalize(above)
        yield from (*draft.losses.problems, *draft.fatal_losses.problems)
        if not draft.is_refused:
            yield from _render_files(siblings.add(draft.build_files()))
            above = {}


def _render_files(files: Iterable[tuple[str, bytes]]) -> Iterator[RenderedFile]:
    return (RenderedFile(path, data) for path, data in files)


def _get_evaluators(case: Case) -> list[Any]:
    params = next((assertion.params for assertion in case.assertions if assertion.grader == GRADER_NAME), {})
    evaluators = params.get("evaluators")
    return evaluators if isinstance(evaluators, list) else []


class _MarkdownDraft:
    """One case while it is rendered."""

    def __init__(self, case: Case, assertion: Assertion, siblings: SiblingFiles, *, lossy: bool) -> None:
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
        self.losses = LossReport(case, DIALECT_NAME, lossy=lossy)
        self.fatal_losses = LossReport(case, DIALECT_NAME, lossy=False)
        """What cannot be written, not even in a lossy conversion."""
        self._path = case.id + ENDING
        fields, self._definition_files = render_definitions(case.form)
        self._attached_files: dict[str, bytes] = {}
        system, turns = _split_turns(case.input)
        front = {"tags": list(case.tags) or None, **fields, "lint": case.metadata.get("lint")}
        self._front: dict[str, Any] = {name: value for name, value in front.items() if value is not None}
        self._test = MarkdownTest(system=system, turns=turns, instructions=case.criteria or LOST_INSTRUCTIONS)
        self.losses.note_fields(_UNSUPPORTED_CASE_FIELDS)
        if not case.criteria:
            self.losses.note("criteria", "an answer is graded by grading instructions, and there are none.")
        self._note_assertions(assertion)
        self._note_metadata()

    @property
    def is_refused(self) -> bool:
        """Whether the case cannot be written."""
        return self.losses.is_refused or self.fatal_losses.is_refused

    def build_files(self) -> dict[str, bytes]:
        """Returns the test and the files that it uses, by path."""
        return {self._path: self._build_test().encode(), **self._attached_files, **self._definition_files}

    def finalize(self, above: Mapping[str, Any]) -> None:
        """Reads the test back, and notes and drops what differs.

        Args:
            above: what was lost of the suite, which this case keeps.
        """
        if not _is_valid_path(self._path) or self._siblings.check_free({self._path: b""}) is None:
            why = "an id must be the path of a separate file, such as `folder/name`, outside `prompts`."
            self.fatal_losses.note("id", why)
            return
        files = collect_attached_files(self._case.input)
        if files is None or not self._fits(files):
            self.losses.note("input", "an attached file needs an unused path in the folder of the suite.")
            self._drop_part("input")
        else:
            self._attached_files = files
        self._keep_losses(above)
        if self._find_differences(self._build_test()):
            self._drop_differing_parts()
            self._keep_losses(above)
            wrong = [] if self.losses.is_refused else self._find_differences(self._build_test())
            for name, why in wrong[:1]:
                self.fatal_losses.note(name, why)

    def _fits(self, files: Mapping[str, bytes]) -> bool:
        """Whether the files conflict with neither the test nor other files."""
        together = {**files, self._path: b""}
        return not (
            self._path in files or is_in_reserved_folder(files) or self._siblings.check_free(together) is None
        )

    def _build_test(self) -> MarkdownTest:
        return replace(self._test, front=self._front)

    def _keep_losses(self, above: Mapping[str, Any]) -> None:
        losses = self.losses.build_metadata(above).get(LOSSES_FIELD)
        if losses is not None:
            self._front[LOSSES_FIELD] = losses

    # --- reading -------------------------------------------------------------------------------------------

    def _find_differences(self, test: MarkdownTest) -> list[tuple[str, str]]:
        """Returns the fields that would be read differently, without those already lost, and why."""
        case, wrong = read_back(self._path, test, {**self._attached_files, **self._definition_files})
        if case is None:
            return [("id", f"the test would be rejected. {wrong.message if wrong else ''}".rstrip())]
        return [
            (name, _REASONS.get(name, "it would be read back as a different test."))
            for name in ("id", *_REASONS)
            if name not in self.losses.lost_fields
            and encode(getattr(case, name)) != encode(getattr(self._case, name))
        ]

    def _drop_differing_parts(self) -> None:
        """Reads each part of the test alone, and drops the parts that differ."""
        for name in _REASONS:
            if name in self.losses.lost_fields:
                continue
            case, _ = read_back(
                self._path, self._get_part(name), {**self._attached_files, **self._definition_files}
            )
            if case is None or encode(getattr(case, name)) != encode(getattr(self._case, name)):
                self.losses.note(name, _REASONS[name])
                self._drop_part(name)

    def _get_part(self, name: str) -> MarkdownTest:
        """Returns a test with only this part of the case."""
        if name == "input":
            return MarkdownTest(system=self._test.system, turns=self._test.turns)
        if name == "criteria":
            return MarkdownTest(instructions=self._test.instructions)
        fields = ("tags",) if name == "tags" else ("tags", *_DEFINITION_FIELDS)
        return MarkdownTest(front={field: self._front[field] for field in fields if field in self._front})

    def _drop_part(self, name: str) -> None:
        """Replaces a part by something that can be expressed."""
        if name == "input":
            self._attached_files = {}
            self._test = replace(self._test, system="", turns=(("user", _strip_markup(self._case)),))
        elif name == "criteria":
            self._test = replace(self._test, instructions=LOST_INSTRUCTIONS)
        elif name == "tags":
            self._front.pop("tags", None)
        else:
            self._definition_files = {}
            for field in _DEFINITION_FIELDS:
                self._front.pop(field, None)

    # --- what the format has no place for ------------------------------------------------------------------

    def _note_assertions(self, renderable: Assertion) -> None:
        is_rendered = False
        for place, assertion in enumerate(self._case.assertions):
            if not is_rendered and assertion_digest(assertion) == assertion_digest(renderable):
                is_rendered = True
            elif assertion.grader == GRADER_NAME:
                why = (
                    "a test has one check, with weight 1, the judge prompts that all tests share, and "
                    'the aggregation "mean".'
                )
                self.losses.note(f"assertions[{place}]", why)
            else:
                why = (
                    f"an answer is graded by grading instructions, not by a check such as "
                    f"{assertion.grader!r}."
                )
                self.losses.note(f"assertions[{place}]", why)
        if not self._case.assertions:
            self.losses.note("assertions", "an answer is always graded by grading instructions.")
        self.losses.note_labels(self._case.assertions)

    def _note_metadata(self) -> None:
        for name in self._case.metadata:
            if name in _PROVENANCE_FIELDS:
                why = "each version is a separate file with its prompt and values filled in."
                (self.losses.note if self._lossy else self.losses.warn)(f"metadata.{name}", why)
            elif name == "lint" and not is_lint(self._case.metadata[name]):
                self.losses.note("metadata.lint", "`lint` is `ignore` or a list of codes of rules.")
                self._front.pop(name, None)
            elif name not in ("file", "lint", LOSSES_FIELD):
                self.losses.note(f"metadata.{name}", "a test has no such field.")


# --- texts -------------------------------------------------------------------------------------------------


def _split_turns(messages: tuple[Message, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Returns the system text, and the role and text of each turn."""
    system = messages[0].content if messages and messages[0].role == "system" else ""
    others = messages[1:] if system else messages
    turns = [
        ("assistant" if message.role == "assistant" else "user", _render_text(message)) for message in others
    ]
    return system, tuple(turns)


def _render_text(message: Message) -> str:
    if not message.parts:
        return message.content
    return message.between.join(
        f"`{{{{_file:{part.path}}}}}`" if isinstance(part, Attachment) else part for part in message.parts
    )


def _strip_markup(case: Case) -> str:
    """Returns all texts of a case as one text without markup."""
    text = "\n\n".join(message.content.strip() for message in case.input).strip() or case.id
    return _TURN_START.sub("> ", text.replace("{{", "{ {")).strip()


def _is_valid_path(path: str) -> bool:
    *folders, name = path.split("/")
    parts = (*folders, name)
    return (
        not any(_BAD_PATH_PART.match(part) or len(part.encode()) > _MAX_NAME_BYTES for part in parts)
        and PROMPTS_FOLDER not in folders
        and not is_readme(name)
    )
