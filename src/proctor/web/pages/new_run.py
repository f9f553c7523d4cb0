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
from proctor.services.suites.builtin_suites import BUILTIN
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import site_of
from proctor.web.runs.allowed_targets import SPLITS, Offer, Project, offer_of
from proctor.web.runs.form import FIELDS, RANGES, Choices, Given, WrongChoices, chosen, usual_number
from proctor.web.runs.processes import children_of
from proctor.web.runs.start import command_of, estimate_of, project_of, start
from proctor.web.security import Form, form_of
from proctor.web.templates_env import page, url

router = APIRouter()

_TIERS = {f"{BUILTIN}cheap": 10, f"{BUILTIN}moderate": 25, f"{BUILTIN}comprehensive": 75}
"""The cases of each built-in suite."""


class Shown(Struct, frozen=True, kw_only=True):
    """The form, as it is shown."""

    given: Given
    """What was chosen so far."""
    suites: tuple[str, ...]
    """The names of those in the store."""
    versions: tuple[SavedSuite, ...]
    """Of the suite that is chosen, the newest first."""
    offer: Offer
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
def choose(request: Request) -> Response:
    """The form, with what the address chooses already and what that would come to."""
    site = site_of(request)
    given = {name: request.query_params.getlist(name) for name in FIELDS}
    with site.store() as store:
        shown = _shown(request, store, given, began=False)
    return page(request, "start.html", shown=shown, group=new_id(), tiers=_TIERS, splits=SPLITS)


@router.post("/run")
def begin(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Start what is chosen, or show what it would come to; a form that is sent twice starts one."""
    site = site_of(request)
    given = {name: form.texts(name) for name in FIELDS}
    if form.text("do") == "estimate":
        return RedirectResponse(url("/run", **_kept(given)), 303)
    try:
        with site.store() as store:
            choices = chosen(store, given, project_of(site))
            estimate_of(site, store, choices)
    except WrongChoices:
        with site.store() as store:
            shown = _shown(request, store, given, began=True)
        values = {"shown": shown, "group": new_id(), "tiers": _TIERS, "splits": SPLITS}
        return page(request, "start.html", 422, **values)
    started = _once(request, choices, given, form.text("group"))
    return RedirectResponse(f"/starts/{started}", 303)


def _once(request: Request, choices: Choices, given: Given, group: str) -> str:
    """The id of what is started; the form's own, unless that was used for something else."""
    site = site_of(request)
    known = children_of(site).find(group)
    if known is not None and not known.runs(choices.words):
        group = new_id()
    elif known is not None:
        visitor_of(request).tell("This was started already. Run it again from its page.")
    return start(site, choices, group=group or None, given=_kept(given)).group


def _kept(given: Given) -> dict[str, list[str]]:
    """The fields that were filled in."""
    filled = {name: [value for value in values if value.strip()] for name, values in given.items()}
    return {name: values for name, values in filled.items() if values}


def _shown(request: Request, store: Store, given: Given, *, began: bool) -> Shown:
    """The form with these values, and what is wrong with them.

    Args:
        request: what asks for it.
        store: where suites are.
        given: what was chosen.
        began: it was to be started, so that whatever is missing is wrong.
    """
    site = site_of(request)
    project = project_of(site)
    choices, estimate, wrong = None, None, dict[str, str]()
    if began or any(given["suite"]):
        try:
            choices = chosen(store, given, project, whole=began)
            estimate = estimate_of(site, store, choices)
        except WrongChoices as error:
            wrong = error.wrong
    if choices is not None and choices.version is None:  # `cheap` means `builtin:cheap`
        given = {**given, "suite": [choices.suite]}
    words = ["SUITE", "--target=TARGET"] if choices is None else choices.words
    if estimate is not None and not estimate.targets:
        words = [*words, "--target=TARGET"]
    saved = store.versions()
    name = next(iter(reversed(given["suite"])), "")
    return Shown(
        given=given,
        suites=tuple(dict.fromkeys(one.suite.name for one in saved if one.suite.name not in _TIERS)),
        versions=tuple(one for one in reversed(saved) if one.suite.name == name and name not in _TIERS),
        offer=offer_of(project),
        usual=_usual(project),
        wrong=wrong,
        estimate=estimate,
        command=command_of(site, words),
    )


def _usual(project: Project) -> dict[str, str]:
    """What stands in each field before anything is chosen."""
    numbers: dict[str, Any] = {name: usual_number(name, project.usual) for name in RANGES}
    found = {name: f"{value:.12g}" for name, value in numbers.items() if value is not None}
    found |= {name: ", ".join(project.usual.texts(name)) for name in ("judge", "tag")}
    return {**found, "split": project.usual.split, "all_tag": " and ".join(project.usual.texts("all-tag"))}
