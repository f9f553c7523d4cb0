"""The API against its own OpenAPI document: valid and invalid requests, made by schemathesis.

No answer is 5xx or undocumented, and no invalid request is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proctor.cli.main import _invoke
from proctor.web.app import make_app
from proctor.web.project import Project

pytestmark = pytest.mark.fuzz

STARTING = ["start_run", "resume_run", "make_certificate", "verify_bundle"]
"""Operations that start processes if the request is right; `test_web_api` calls them."""
NOT_IN_SCHEMA = ["save_suite", "validate_suite", "export_suite", "estimate_run", *STARTING]
"""Operations that need more than the schema says: a valid suite, a dialect, a target that exists."""


@pytest.fixture
def run_id(site: Project, project: Path) -> str:
    """The id of a run of twelve cases, some held out, of which the target passes six."""
    lines = (
        {"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}" if n % 2 else "no", "scorer": "exact"}
        for n in range(12)
    )
    (project / "s.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    site.location.folder.mkdir()
    _invoke(["run", "s.jsonl", "--target", "echo", "--quiet", "--store", site.location.address])
    with site.open_store() as store:
        return next(store.runs()).id


class CallReport(NamedTuple):
    """What happened when all operations were called."""

    wrong: list[str]
    """The answers that break the document, each with the command that repeats the call."""
    operations: set[str]
    statuses: set[int]


def call_all_operations(
    site: Project,
    *,
    examples: int,
    coverage: bool,
    parameters: Mapping[str, Any] = {},
    token: str | None = None,
) -> CallReport:
    """Lets schemathesis call every operation in the document of a site.

    Args:
        site: the site whose API is called.
        examples: how many random requests to make for each operation, valid and invalid.
        coverage: whether to also try boundary values of each parameter and field, inside and outside.
        parameters: fixed values of parameters, by name.
        token: the token sent with each request; some requests omit it, which must be noticed.
    """
    import schemathesis
    from schemathesis.engine import Status, events, from_schema

    site.token, site.hosts = token, frozenset({"testserver"})
    headers = {} if token is None else {"headers": {"Authorization": f"Bearer {token}"}}
    config = schemathesis.Config.from_dict(
        {
            "seed": 1,
            "workers": 1,
            "generation": {
                "max-examples": examples,
                "deterministic": True,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {
                "coverage": {"enabled": coverage, "unexpected-methods": ["delete"]},
                "stateful": {"enabled": False},
            },
            "operations": [
                {"include-operation-id": STARTING, "enabled": False},
                {
                    "include-operation-id": NOT_IN_SCHEMA,
                    "checks": {"positive_data_acceptance": {"enabled": False}},
                },
            ],
            "parameters": dict(parameters),
            **headers,
        }
    )
    schema = schemathesis.openapi.from_asgi(
        "/api/v1/openapi.json", make_app(site), config=config, headers=headers.get("headers", {})
    )
    report = CallReport([], set(), set())
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            report.operations.add(str(event.label))
            for key, interaction in event.recorder.interactions.items():
                if interaction.response is not None:
                    report.statuses.add(interaction.response.status_code)
                for check in event.recorder.checks.get(key, ()):
                    if check.status is Status.FAILURE:
                        curl = event.recorder.cases[key].value.as_curl_command()
                        answer = None if interaction.response is None else interaction.response.content[:300]
                        report.wrong.append(f"{check.name}: {curl} -> {answer!r}")
        elif isinstance(event, events.NonFatalError | events.FatalError):
            report.wrong.append(str(vars(event)))
    return report


def test_every_value_at_an_edge_is_answered_as_documented(site: Project, run_id: str) -> None:
    parameters = {"path.run_id": run_id, "query.name": "s", "path.position": 3, "path.repeat": 0}
    report = call_all_operations(site, examples=2, coverage=True, parameters=parameters)
    assert report.wrong == []
    assert len(report.operations) > 20
    assert {200, 400, 404, 405, 409, 415, 422} <= report.statuses
    assert 401 not in report.statuses


def test_whatever_a_stranger_asks_is_answered_as_documented(site: Project, run_id: str) -> None:
    report = call_all_operations(site, examples=6, coverage=False, token="a token of tests")
    assert report.wrong == []
    assert len(report.operations) > 20
    assert {200, 401, 404, 422} <= report.statuses
