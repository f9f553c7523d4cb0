"""What a server shows and refuses when its role may only read the store."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from proctor import run
from proctor.stores.location import Grants
from proctor.web.project import Project
from support.web import read_text, visit

pytestmark = pytest.mark.slow


def test_a_role_that_may_only_read_is_told_so_at_once(
    postgres_server: Any, postgres_location: Any, project: Path
) -> None:
    reader = f"role_{uuid4().hex[:12]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE ROLE {reader} LOGIN")
    postgres_location.migrate(Grants(read=(reader,)))
    rows = [{"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}"} for n in range(40)]
    (project / "many.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run("many.jsonl", target="echo", store=postgres_location.address)
    with closing(postgres_location.open_store()) as store:
        (stored_run,) = store.runs()
    site = Project(postgres_location.address.replace("postgres@", f"{reader}@"), folder=project)
    with visit(site) as server:
        assert stored_run.id in read_text(server.page("/runs"))
        page = server.page(f"/runs/{stored_run.id}", status=403)
        assert "holdout cases" in read_text(page)
        assert f"is read-only for role {reader}" in read_text(page)
        answer = server.send(
            "POST",
            "/api/v1/runs",
            json.dumps({"suite": "many", "targets": ["echo"]}).encode(),
            {"content-type": "application/json"},
        )
        problem = json.loads(answer.data)
        assert (answer.status, problem["type"]) == (403, "/api/v1/problems/read-only-store")
        assert f"is read-only for role {reader}" in problem["detail"]
        answer = server.post("/run", {"suite": "many", "target": "echo"})
        assert answer.status == 403
        assert f"is read-only for role {reader}" in answer.data.decode()
