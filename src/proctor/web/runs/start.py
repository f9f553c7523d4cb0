"""Choices to a run that is made: what it would come to, the command that does the same, and its child."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from proctor.errors import ProctorError, SuiteError
from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.reading.estimate import estimated
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.web.project import Site
from proctor.web.runs.allowed_targets import Project
from proctor.web.runs.form import Choices, Given, WrongChoices
from proctor.web.runs.processes import Start, children_of


def project_of(site: Site) -> Project:
    """The project of a site, as its files are now."""
    return Project(
        folder=site.folder,
        environ=site.environ,
        config=site.config,
        names=Names(site.environ, site.folder),
    )


def estimate_of(site: Site, store: Store, choices: Choices) -> Estimate:
    """What choices would come to.

    Raises:
        WrongChoices: they cannot be run: somebody cannot be asked, nothing is selected, or a budget lacks
            a price.
    """
    project = project_of(site)
    request = choices.request(project)
    try:
        found = estimated(store, request, site.environ, folder=site.location.folder, start=site.folder)
    except SuiteError as error:
        raise WrongChoices({"target": " ".join(str(one.message) for one in error.problems)}) from None
    except ProctorError as error:
        raise WrongChoices({"target": str(error)}) from None
    if not found.cases:
        raise WrongChoices({"split": "This leaves no case of the suite. Choose another split or other tags."})
    if found.budget_usd is not None and found.unlimited:
        names = ", ".join(found.unlimited)
        raise WrongChoices(
            {
                "budget_usd": f"A budget needs the price of everybody who is asked, and that of {names} is "
                "not known. Leave the budget out, or put the price into a prices.toml beside the store."
            }
        )
    return found


def command_of(site: Site, words: Sequence[str]) -> str:
    """`proctor run` with these words, as a shell in the site's folder has it."""
    return shlex.join(("proctor", "run", *words, *site.store_words))


def start(site: Site, choices: Choices, *, given: Given, group: str | None = None) -> Start:
    """Start a child that makes the runs of choices.

    Args:
        site: where.
        choices: what is run.
        given: the fields as they were given, to choose them again.
        group: what the runs are called together; a new id where there is none.

    Raises:
        UsageError: the child cannot be made, or something else was started as that group.
    """
    return children_of(site).begin(choices.words, group=group, fields=given)


def why_not_resumed(store: Store, run: Run) -> str:
    """Why nothing can be made of what a run lacks; empty where something can.

    Raises:
        StoreError: the store cannot be read.
    """
    if run.imported is not None:
        return "This run was imported, and nobody is asked again by what a bundle says."
    there = sum(count for verdict, count in store.counts(run.id).items() if verdict is not None)
    return "Nothing is missing of this run." if run.status == "finished" and there >= run.planned else ""
