"""The API against its own OpenAPI document: requests of all kinds, right and wrong, made by schemathesis.

Nothing is answered with 5xx or in a way that the document does not tell of, and nothing wrong is accepted.
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
"""What starts processes when it is asked rightly; `test_web_api` asks that."""
OF_THE_WORLD = ["save_suite", "validate_suite", "export_suite", "estimate_run", *STARTING]
"""What no schema can tell: whether a text is a suite, what a dialect can say, whether there is a target."""


@pytest.fixture
def stored(site: Project, project: Path) -> str:
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


class Heard(NamedTuple):
    """What came of asking everything."""

    wrong: list[str]
    """What was answered otherwise than it had to be."""
    asked: set[str]
    """The operations."""
    statuses: set[int]


def heard(
    site: Project, *, examples: int, coverage: bool, known: Mapping[str, Any] = {}, token: str | None = None
) -> Heard:
    """What schemathesis hears when it asks all that the document of a site has.

    Args:
        site: what is asked.
        examples: so many random requests for each operation, right ones and wrong ones.
        coverage: also each value at the edge of what each parameter and field may be, and just beyond it.
        known: what these parameters always are.
        token: is sent with every request, and left out in some to see whether that is noticed.
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
                    "include-operation-id": OF_THE_WORLD,
                    "checks": {"positive_data_acceptance": {"enabled": False}},
                },
            ],
            "parameters": dict(known),
            **headers,
        }
    )
    schema = schemathesis.openapi.from_asgi(
        "/api/v1/openapi.json", make_app(site), config=config, headers=headers.get("headers", {})
    )
    found = Heard([], set(), set())
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            found.asked.add(str(event.label))
            for key, one in event.recorder.interactions.items():
                if one.response is not None:
                    found.statuses.add(one.response.status_code)
                for check in event.recorder.checks.get(key, ()):
                    if check.status is Status.FAILURE:
                        curl = event.recorder.cases[key].value.as_curl_command()
                        told = None if one.response is None else one.response.content[:300]
                        found.wrong.append(f"{check.name}: {curl} -> {told!r}")
        elif isinstance(event, events.NonFatalError | events.FatalError):
            found.wrong.append(str(vars(event)))
    return found


def test_every_value_at_an_edge_is_answered_as_documented(site: Project, stored: str) -> None:
    known = {"path.run_id": stored, "query.name": "s", "path.position": 3, "path.repeat": 0}
    found = heard(site, examples=2, coverage=True, known=known)
    assert found.wrong == []
    assert len(found.asked) > 20
    assert {200, 400, 404, 405, 409, 415, 422} <= found.statuses
    assert 401 not in found.statuses


def test_whatever_a_stranger_asks_is_answered_as_documented(site: Project, stored: str) -> None:
    found = heard(site, examples=6, coverage=False, token="a token of tests")
    assert found.wrong == []
    assert len(found.asked) > 20
    assert {200, 401, 404, 422} <= found.statuses
