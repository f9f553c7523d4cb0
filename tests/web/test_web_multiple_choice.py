"""Choices on the pages of a run and of a case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest

from proctor.model import Run
from proctor.web.project import Project
from support.web import Visitor, make_runs, save_suite, visit

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[Visitor, Run]]:
    """A server with a run of one case, which a recording answers."""
    site = Project(tmp_path / ".proctor" / "proctor.db", folder=tmp_path)
    case = {
        "id": "sky",
        "input": [{"role": "user", "content": "The sky is"}],
        "form": {"choices": [HOSTILE, "blue"]},
        "assertions": [{"grader": "multiple_choice", "params": {"value": 1}}],
    }
    save_suite(
        site, "sky", f"{json.dumps({'proctor': 1, 'name': 'sky', 'holdout': 0})}\n{json.dumps(case)}\n"
    )
    choices = [
        {"text": HOSTILE, "logprob": -5.0, "tokens": 8},
        {"text": "blue", "logprob": -5.5, "tokens": 1},
    ]
    line = {"case_id": "sky", "output": {"text": HOSTILE, "choices": choices}}
    (tmp_path / "r.jsonl").write_text(json.dumps(line), encoding="utf-8")
    runs = make_runs(site, "sky", f"replay:{tmp_path}/r.jsonl")
    with visit(site) as server:
        yield server, runs[0]


def test_a_case_shows_how_likely_each_choice_is(pages: tuple[Visitor, Run]) -> None:
    server, run = pages
    html = server.page(f"/runs/{run.id}/cases/0")
    assert HOSTILE not in html
    assert HOSTILE not in html
    assert f'<th scope="row">{escape(HOSTILE)}</th><td class="number">-5.0000</td>' in html
    assert '<th scope="row">blue</th><td class="number">-5.5000</td><td class="number">-1.3750</td>' in html


def test_a_run_shows_each_measure(pages: tuple[Visitor, Run]) -> None:
    server, run = pages
    html = server.page(f"/runs/{run.id}")
    assert "<dt>multiple choice</dt><dd>acc 0.0%, acc_norm 0.0%, acc_bytes 0.0%</dd>" in html
