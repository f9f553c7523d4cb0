"""Checks the suite of an upload, and saves it.

A visitor of a page need not own the machine. An uploaded suite is read from memory; it may call the run's
target and grade its answers, and nothing else on this machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import SuiteError, UsageError
from proctor.holdout import with_holdout_share
from proctor.model import Case, Problem, SplitRule, Suite
from proctor.plurals import join_names
from proctor.protocols import CaseAtLine, Store, SuiteSource, SuiteWriter
from proctor.services.bundles.side_effects import find_side_effects
from proctor.services.runs.config import Config
from proctor.services.suites.holdout_split import check_share
from proctor.services.suites.load import SuiteProblems, load_source
from proctor.services.suites.save_and_open import SaveResult, check_builtin, get_save_state
from proctor.services.suites.saved_names import check_suite_name
from proctor.services.suites.upload import (
    Upload,
    decode_suite_text,
    folder_endings,
    source_from_upload,
)
from proctor.services.suites.validate import validate_source
from proctor.validation import quote_value

PAGE_CODE: Final = "not-from-a-page"
"""The code of problems that only suites from a page have."""
MAX_PREVIEW_CASES: Final = 20
"""The number of cases that the page shows of a draft."""
MAX_NAME_LENGTH: Final = 200
"""In characters; lists have no room for longer names."""

_SAVE_HINT: Final = "Remove it, or save the suite on the command line with `proctor suites save`."
_NAME_HINT: Final = f"Name one of the targets.yaml here. {_SAVE_HINT.replace('Take', 'Or take')}"
_FIELDS: Final = {
    "is graded by a program": "assertions",
    "names a judge of its own": "assertions",
    "uses a workspace": "workspace",
    "names a target of its own": "target",
}
_CODES_OF_READ_CASES: Final = frozenset({"bad-assertion", PAGE_CODE})
"""The codes of errors in cases that could still be read."""


class UploadDraft(SuiteProblems, frozen=True, kw_only=True):
    """A checked upload that is not saved yet."""

    upload: Upload
    suite: Suite | None
    """Its header, as it would be saved; None if no format recognises the upload."""
    first: tuple[Case, ...] = ()
    """Its first cases."""
    holdout: frozenset[int] = frozenset()
    """The positions of the held-out cases."""

    @property
    def read(self) -> int:
        """The number of cases read, including those with errors."""
        wrong = {problem.case for problem in self.errors if problem.code not in _CODES_OF_READ_CASES}
        return (0 if self.suite is None else self.suite.case_count) + len(wrong - {None})


class DraftSettings(Struct, frozen=True, kw_only=True):
    """How an upload is read and saved."""

    name: str = ""
    """The name for the suite; empty uses that of its file."""
    dialect: str | None = None
    """Its dialect; None detects it from the content."""
    holdout: float | None = None
    """The share of its cases to hold out, 0 for none; None leaves that to the file, and is a fifth where the
    file does not say."""
    own_targets: Collection[str] = ()
    """The names in the server's targets file, which a suite may use."""
    options: Mapping[str, Any] = {}
    """See `upload_options`."""


def check_upload(upload: Upload, settings: DraftSettings) -> UploadDraft:
    """Reads an upload and finds all errors and warnings in it.

    Raises:
        UsageError: the upload is no text, there is no such dialect, or the holdout is no valid share.
    """
    source = _open_upload(upload, settings)
    first: list[Case] = []

    def inspect(located_case: CaseAtLine) -> Iterator[Problem]:
        if len(first) < MAX_PREVIEW_CASES:
            first.append(located_case.case)
        yield from _check_side_effects(located_case, upload.main, settings.own_targets)

    validation = validate_source(source, inspect, dialect=settings.dialect)
    problems = tuple(map(_to_page_problem, validation.problems))
    if validation.loaded_suite is None:
        return UploadDraft(upload=upload, suite=None, problems=problems)
    suite, warnings = _prepare_suite(validation.loaded_suite.suite, upload, settings)
    draft = UploadDraft(upload=upload, suite=suite, problems=(*warnings, *problems), first=tuple(first))
    if draft.errors:  # which cases are held out depends on all of them
        return draft
    holdout = replace(validation.loaded_suite, suite=suite).index().holdout
    return replace(draft, holdout=frozenset(holdout or ()))


def save_draft(store: Store, upload: Upload, settings: DraftSettings) -> SaveResult:
    """Saves the suite of an upload, as `Suites.save` saves one in a file.

    Raises:
        SuiteError: the suite is invalid, or would act on this machine; nothing was saved.
        UsageError: the name is not allowed, or the holdout is no valid share.
    """
    source = _open_upload(upload, settings)
    before = store.versions()
    writer = _CheckingWriter(store.open_suite_writer(), upload, settings)
    try:
        load_result = load_source(source, dialect=settings.dialect, writer=writer)
    except SuiteError as error:
        raise SuiteError([_to_page_problem(problem) for problem in error.problems]) from None
    finally:
        writer.discard()
    if load_result.errors:
        raise SuiteError([_to_page_problem(problem) for problem in load_result.problems])
    return SaveResult(
        path=upload.name or upload.main,
        suite=load_result.suite,
        state=get_save_state(load_result.suite, before),
    )


def upload_options(config: Config) -> dict[str, Any]:
    """Returns the reading options of `proctor.toml` that name no folder of this machine."""
    options: dict[str, Any] = dict(config.dialect_options)
    if config.substitutions:
        options["substitutions"] = dict(config.substitutions)
    return options


class _CheckingWriter:
    """A writer that refuses a suite which would act on this machine."""

    def __init__(self, writer: SuiteWriter, upload: Upload, settings: DraftSettings) -> None:
        self._writer = writer
        self._upload = upload
        self._settings = settings
        self._problems: list[Problem] = []

    def add(self, case: Case, sent: str) -> None:
        """Checks and adds the next case."""
        own_targets = self._settings.own_targets
        self._problems += _check_side_effects(CaseAtLine(case, 1), self._upload.main, own_targets)
        self._writer.add(case, sent)

    def commit(self, suite: Suite) -> Suite:
        """Saves the suite.

        Raises:
            SuiteError: it would act on this machine.
            UsageError: its name is not allowed.
        """
        if self._problems:
            raise SuiteError(self._problems)
        suite, _ = _prepare_suite(suite, self._upload, self._settings)
        check_suite_name(suite.name)
        if len(suite.name) > MAX_NAME_LENGTH:
            raise UsageError(f"The name has {len(suite.name)} characters. Use at most {MAX_NAME_LENGTH}.")
        check_builtin(suite.name, suite.digest)
        return self._writer.commit(suite)

    def discard(self) -> None:
        """Discards what was added."""
        self._writer.discard()


def _open_upload(upload: Upload, settings: DraftSettings) -> SuiteSource:
    """Returns the source of an upload whose suite files are UTF-8; attachments may be anything.

    Raises:
        UsageError: one is not, or the holdout is no valid share.
    """
    if upload.is_folder:
        text_paths = [path for path in upload.files if path.lower().endswith(folder_endings())]
    else:
        text_paths = [upload.main]
    for path in text_paths:
        decode_suite_text(upload.files[path], path)
    if settings.holdout is not None:
        check_share(settings.holdout, "The share held out")
    return source_from_upload(upload, settings.options)


def _prepare_suite(suite: Suite, upload: Upload, settings: DraftSettings) -> tuple[Suite, list[Problem]]:
    """Sets the name and split of a suite's header, and leaves out targets that the server does not have."""
    holdout, own_targets = settings.holdout, settings.own_targets
    title = settings.name.strip() or (upload.name if upload.is_folder and upload.name else suite.name)
    unknown_targets = [target for target in suite.defaults.targets if target not in own_targets]
    if holdout is None and suite.split_rule is None and not suite.no_holdout:
        holdout = SplitRule().ratio
    suite = replace(suite if holdout is None else with_holdout_share(suite, holdout), name=title, folder="")
    if not unknown_targets:
        return suite, []
    message = (
        "The suite names the targets "
        f"{join_names([quote_value(name) for name in unknown_targets], 5)}, which are not in the "
        "targets.yaml here, so they are ignored. Choose the targets on Run Suite."
    )
    warning = Problem(
        level="warning",
        code=PAGE_CODE,
        message=message,
        path=upload.main,
        line=None if upload.is_folder else 1,
    )
    known_targets = tuple(target for target in suite.defaults.targets if target in own_targets)
    return replace(suite, defaults=replace(suite.defaults, targets=known_targets)), [warning]


# --- what a page may not say -------------------------------------------------------------------------------


def _check_side_effects(located_case: CaseAtLine, path: str, own_targets: Collection[str]) -> list[Problem]:
    """Returns an error for each thing that a case would do on this machine."""
    case = located_case.case
    return [
        Problem(
            code=PAGE_CODE,
            message=(
                f"Case {quote_value(case.id)} {what} ({quote_value(detail)}), which is not allowed for "
                "an uploaded suite. " + (_NAME_HINT if what.startswith("names ") else _SAVE_HINT)
            ),
            path=located_case.path or path,
            line=located_case.line,
            field=_FIELDS.get(what, "input"),
            case=case.id,
        )
        for what, detail in find_side_effects(case, own_targets)
    ]


def _to_page_problem(problem: Problem) -> Problem:
    """Rewords a problem for a page if it names flags of the command line."""
    if problem.code == "unset-variable":
        message = (
            f"`{problem.field}` reads an environment variable, which is not allowed for an uploaded "
            f"suite. {_SAVE_HINT}"
        )
        return replace(problem, code=PAGE_CODE, message=message)
    if problem.code in ("unknown-dialect", "ambiguous-dialect"):
        return replace(problem, message=problem.message.replace(" with --dialect", ""))
    return problem
