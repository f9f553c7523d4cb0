"""Run Suite: what is to be run, what that would come to, and starting it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.protocols import SavedSuite, Store
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.services.runs.request import new_id
from proctor.services.suites.suite_sources import BUILTIN
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.runs.allowed_targets import SPLITS, AllowedTargets, RunContext, list_allowed_targets
from proctor.web.runs.form import (
    FIELDS,
    NUMBER_FIELDS,
    FormErrors,
    RawForm,
    RunForm,
    default_number,
    validate_form,
)
from proctor.web.runs.processes import get_run_processes
from proctor.web.runs.start import load_run_context, make_estimate, shell_command, start
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import render_page, url

router = APIRouter()

_TIERS = {f"{BUILTIN}cheap": 10, f"{BUILTIN}moderate": 25, f"{BUILTIN}comprehensive": 75}
"""The cases of each built-in suite."""


class FormView(Struct, frozen=True, kw_only=True):
    """The form, as it is shown."""

    given: RawForm
    """What was chosen so far."""
    suites: tuple[str, ...]
    """The names of those in the store."""
    versions: tuple[SavedSuite, ...]
    """Of the suite that is chosen, the newest first."""
    allowed_targets: AllowedTargets
    usual: dict[str, str]
    """What counts where a field is left empty."""
    wrong: dict[str, str]
    estimate: Estimate | None
    command: str

    def value(self, field: str) -> str:
        """The text in a field."""
        return next(iter(reversed(self.given.get(field, ()))), "") or self.usual.get(field, "")

    def values(self, field: str) -> list[str]:
        """All values of a field that may have several."""
        return list(self.given.get(field, ()))

    def wrong_in(self, field: str) -> str:
        """What is wrong with a field; empty where nothing is."""
        return self.wrong.get(field, "")

    @property
    def answer(self) -> str:
        """The first line of the page."""
        if self.estimate is not None:
            return self.estimate.sentence
        if self.wrong:
            wrong = "One choice is" if len(self.wrong) == 1 else f"{len(self.wrong)} choices are"
            return f"{wrong} to be changed before this can run"
        return "Choose a suite, and whom to ask"


@router.get("/run")
def show_form(request: Request) -> Response:
    """The form, with what the address chooses already and what that would come to."""
    project = get_project(request)
    given = {name: request.query_params.getlist(name) for name in FIELDS}
    with project.store() as store:
        shown = _make_view(request, store, given, began=False)
    return render_page(request, "start.html", shown=shown, group=new_id(), tiers=_TIERS, splits=SPLITS)


@router.post("/run")
def start_run(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Start what is chosen, or show what it would come to; a form that is sent twice starts one."""
    project = get_project(request)
    given = {name: form.texts(name) for name in FIELDS}
    if form.text("do") == "estimate":
        return RedirectResponse(url("/run", **_filled_fields(given)), 303)
    try:
        with project.store() as store:
            run_form = validate_form(store, given, load_run_context(project))
            make_estimate(project, store, run_form)
    except FormErrors:
        with project.store() as store:
            shown = _make_view(request, store, given, began=True)
        values = {"shown": shown, "group": new_id(), "tiers": _TIERS, "splits": SPLITS}
        return render_page(request, "start.html", 422, **values)
    started = _once(request, run_form, given, form.text("group"))
    return RedirectResponse(f"/starts/{started}", 303)


def _once(request: Request, run_form: RunForm, given: RawForm, group: str) -> str:
    """The id of what is started; the form's own, unless that was used for something else."""
    project = get_project(request)
    known = get_run_processes(project).find(group)
    if known is not None and not known.runs(run_form.words):
        group = new_id()
    elif known is not None:
        get_session(request).flash("This was started already. Run it again from its page.")
    return start(project, run_form, group=group or None, given=_filled_fields(given)).group


def _filled_fields(given: RawForm) -> dict[str, list[str]]:
    """The fields that were filled in."""
    filled = {name: [value for value in values if value.strip()] for name, values in given.items()}
    return {name: values for name, values in filled.items() if values}


def _make_view(request: Request, store: Store, given: RawForm, *, began: bool) -> FormView:
    """The form with these values, and what is wrong with them.

    Args:
        request: what asks for it.
        store: where suites are.
        given: what was chosen.
        began: it was to be started, so that whatever is missing is wrong.
    """
    project = get_project(request)
    context = load_run_context(project)
    run_form, estimate, wrong = None, None, dict[str, str]()
    if began or any(given["suite"]):
        try:
            run_form = validate_form(store, given, context, whole=began)
            estimate = make_estimate(project, store, run_form)
        except FormErrors as error:
            wrong = error.wrong
    if run_form is not None and run_form.version is None:  # `cheap` means `builtin:cheap`
        given = {**given, "suite": [run_form.suite]}
    words = ["SUITE", "--target=TARGET"] if run_form is None else run_form.words
    if estimate is not None and not estimate.targets:
        words = [*words, "--target=TARGET"]
    saved = store.versions()
    name = next(iter(reversed(given["suite"])), "")
    return FormView(
        given=given,
        suites=tuple(dict.fromkeys(one.suite.name for one in saved if one.suite.name not in _TIERS)),
        versions=tuple(one for one in reversed(saved) if one.suite.name == name and name not in _TIERS),
        allowed_targets=list_allowed_targets(context),
        usual=_usual(context),
        wrong=wrong,
        estimate=estimate,
        command=shell_command(project, words),
    )


def _usual(context: RunContext) -> dict[str, str]:
    """What stands in each field before anything is chosen."""
    numbers: dict[str, Any] = {name: default_number(name, context.usual) for name in NUMBER_FIELDS}
    found = {name: f"{value:.12g}" for name, value in numbers.items() if value is not None}
    found |= {name: ", ".join(context.usual.texts(name)) for name in ("judge", "tag")}
    return {**found, "split": context.usual.split, "all_tag": " and ".join(context.usual.texts("all-tag"))}
