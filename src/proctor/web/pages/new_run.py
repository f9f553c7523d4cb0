"""The page Run Suite: choose what to run, see its estimate, and start it."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.protocols import SavedSuite, Store
from proctor.reports.runs.prompts import prompt_text
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.services.runs.request import new_id
from proctor.services.runs.starts.allowed_targets import (
    SPLITS,
    AllowedTargets,
    RunContext,
    list_allowed_targets,
    load_run_context,
)
from proctor.services.runs.starts.processes import get_run_processes
from proctor.services.runs.starts.run_form import NUMBER_FIELDS, RunForm, default_number
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.runs.form import (
    FIELDS,
    MAX_WRITTEN_PROMPTS,
    FormErrors,
    RawForm,
    list_offered_prompts,
    validate_form,
)
from proctor.web.runs.start import make_estimate, make_start_arguments, shell_command, start_process
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import render_page, url

router = APIRouter()

_TIERS = {f"{BUILTIN_PREFIX}cheap": 10, f"{BUILTIN_PREFIX}moderate": 25, f"{BUILTIN_PREFIX}comprehensive": 75}
"""Number of cases of each built-in suite."""


_MAX_OFFERED_PROMPTS = 30
_MIN_DRAFTS = 2
"""The form has at least this many places to write a prompt."""
_MAX_ADDRESS = 8_000
"""With longer texts of prompts, an estimate has no address of its own, which servers between might refuse."""


class OfferedPrompt(Struct, frozen=True):
    """A prompt of a stored run."""

    name: str
    text: str


class PromptDraft(Struct, frozen=True):
    """A prompt that is written in the form, or an empty place for one."""

    number: int
    name: str
    text: str


class FormView(Struct, frozen=True, kw_only=True):
    """The form as shown on the page."""

    raw_form: RawForm
    """The current values."""
    suites: tuple[str, ...]
    """Names of stored suites."""
    versions: tuple[SavedSuite, ...]
    """Versions of the chosen suite, newest first."""
    allowed_targets: AllowedTargets
    prompts: tuple[OfferedPrompt, ...]
    """Prompts of stored runs, newest first."""
    defaults: dict[str, str]
    """Values of fields that are left empty."""
    errors: dict[str, str]
    estimate: Estimate | None
    command: str

    def value(self, field: str) -> str:
        """Returns the text of a field."""
        return next(iter(reversed(self.raw_form.get(field, ()))), "") or self.defaults.get(field, "")

    def values(self, field: str) -> list[str]:
        """Returns all values of a field that may have several."""
        return list(self.raw_form.get(field, ()))

    def error_for(self, field: str) -> str:
        """Returns the error of a field, or an empty text."""
        return self.errors.get(field, "")

    @property
    def drafts(self) -> list[PromptDraft]:
        """The prompts that are written, and empty places for further ones."""
        drafts = [
            PromptDraft(number, self.value(f"prompt_name_{number}"), self.value(f"prompt_text_{number}"))
            for number in range(1, MAX_WRITTEN_PROMPTS + 1)
        ]
        used = [draft.number for draft in drafts if draft.name or draft.text]
        return drafts[: max(_MIN_DRAFTS, max(used, default=0) + 1)]

    @property
    def has_drafts(self) -> bool:
        """Whether a prompt is written."""
        return any(draft.name or draft.text for draft in self.drafts)

    @property
    def answer(self) -> str:
        """The first line of the page."""
        if self.estimate is not None:
            return self.estimate.sentence
        if self.errors:
            subject = "One field has" if len(self.errors) == 1 else f"{len(self.errors)} fields have"
            return f"{subject} to change before this can run"
        return "Choose a suite and a target"


@router.get("/run")
def show_form(request: Request) -> Response:
    """Shows the form with the values of the address and an estimate."""
    project = get_project(request)
    raw_form = {name: request.query_params.getlist(name) for name in FIELDS}
    with project.open_store() as store:
        view = _make_view(request, store, raw_form, is_start=False)
    return _render(request, view)


@router.post("/run")
def start_run(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Starts the run of the form, or shows its estimate; a form that is sent twice starts one run."""
    project = get_project(request)
    raw_form = {name: form.texts(name) for name in FIELDS}
    if form.text("do") == "estimate":
        address = url("/run", **_filled_fields(raw_form))
        if len(address) <= _MAX_ADDRESS:
            return RedirectResponse(address, 303)
        with project.open_store() as store:
            view = _make_view(request, store, raw_form, is_start=False)
        return _render(request, view)
    project.location.check_writable()
    try:
        with project.open_store() as store:
            run_form = validate_form(store, raw_form, load_run_context(project))
            make_estimate(project, store, run_form)
    except FormErrors:
        with project.open_store() as store:
            view = _make_view(request, store, raw_form, is_start=True)
        return _render(request, view, 422)
    group_id = _start_once(request, run_form, raw_form, form.text("group"))
    return RedirectResponse(f"/starts/{group_id}", 303)


def _render(request: Request, view: FormView, status: int = 200) -> Response:
    return render_page(request, "start.html", status, view=view, group=new_id(), tiers=_TIERS, splits=SPLITS)


def _start_once(request: Request, run_form: RunForm, raw_form: RawForm, group: str) -> str:
    """Starts a run and returns its group; the form's own, unless another run has used that."""
    project = get_project(request)
    earlier = get_run_processes(project).find(group)
    if earlier is not None and not earlier.is_same_command(make_start_arguments(project, run_form)):
        group = new_id()
    elif earlier is not None:
        get_session(request).flash("This run was already started. Run it again from its page.")
    return start_process(project, run_form, group=group or None, raw_form=_filled_fields(raw_form)).group


def _filled_fields(raw_form: RawForm) -> dict[str, list[str]]:
    """Returns the fields that are not empty."""
    filled_values = {name: [value for value in values if value.strip()] for name, values in raw_form.items()}
    return {name: values for name, values in filled_values.items() if values}


def _make_view(request: Request, store: Store, raw_form: RawForm, *, is_start: bool) -> FormView:
    """Returns the form with these values and their errors.

    Args:
        request: the request for the page.
        store: the store of suites.
        raw_form: the values.
        is_start: whether it is to be started, so that missing values are errors.
    """
    project = get_project(request)
    context = load_run_context(project)
    run_form, estimate, errors = None, None, dict[str, str]()
    if is_start or any(raw_form["suite"]):
        try:
            run_form = validate_form(store, raw_form, context, require_target=is_start)
            estimate = make_estimate(project, store, run_form)
        except FormErrors as error:
            errors = error.errors
    if run_form is not None and run_form.version is None:  # `cheap` means `builtin:cheap`
        raw_form = {**raw_form, "suite": [run_form.suite]}
    arguments = ["SUITE", "--target=TARGET"] if run_form is None else run_form.arguments
    if estimate is not None and not estimate.targets:
        arguments = [*arguments, "--target=TARGET"]
    saved = store.versions()
    name = next(iter(reversed(raw_form["suite"])), "")
    return FormView(
        raw_form=raw_form,
        suites=tuple(
            dict.fromkeys(
                saved_suite.suite.name for saved_suite in saved if saved_suite.suite.name not in _TIERS
            )
        ),
        versions=tuple(
            saved_suite
            for saved_suite in reversed(saved)
            if saved_suite.suite.name == name and name not in _TIERS
        ),
        allowed_targets=list_allowed_targets(context),
        prompts=tuple(
            [
                OfferedPrompt(name, prompt_text(prompt))
                for name, prompt in islice(list_offered_prompts(store).items(), _MAX_OFFERED_PROMPTS)
            ]
        ),
        defaults=_default_values(context),
        errors=errors,
        estimate=estimate,
        command=shell_command(project, arguments),
    )


def _default_values(context: RunContext) -> dict[str, str]:
    """Returns the default text of each field."""
    numbers: dict[str, Any] = {name: default_number(name, context.defaults) for name in NUMBER_FIELDS}
    values_by_field = {name: f"{value:.12g}" for name, value in numbers.items() if value is not None}
    values_by_field |= {name: ", ".join(context.defaults.texts(name)) for name in ("judge", "tag", "prompt")}
    return {
        **values_by_field,
        "split": context.defaults.split,
        "interleave": "yes" if context.defaults.value("interleave", bool) else "no",
        "cluster": context.defaults.value("cluster", str) or "",
        "all_tag": " and ".join(context.defaults.texts("all-tag")),
        "param": ", ".join(context.defaults.texts("param")),
    }
