"""A run to its command line."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

import pytest

from proctor.model import Params, Run, Selection, Settings, Suite, TargetSpec
from proctor.reports.runs.command_line import rerun_command


def make_run(**fields: Any) -> Run:
    defaults: dict[str, Any] = {
        "id": "r",
        "group": "r",
        "suite": Suite(name="my suite", dialect="meridian", version="v2"),
        "target": TargetSpec(name="openai:m", kind="openai"),
        "started_at": datetime(2026, 3, 1, tzinfo=UTC),
    }
    return Run(**defaults | fields)


def test_defaults_are_left_out() -> None:
    assert rerun_command(make_run()) == "proctor run 'my suite@v2' --target openai:m"


def test_all_options_are_in_the_command() -> None:
    settings = Settings(
        selection=Selection(split="dev", tags=("a b",), ids=("x*",), limit=3),
        repeats=2,
        timeout_s=7.5,
        min_pass_rate=0.123456789,
    )
    target = TargetSpec(name="t", kind="openai", params=Params(temperature=0.7, max_tokens=9))
    run = make_run(
        settings=settings, target=target, judges=(TargetSpec(name="j", kind="openai"),), judges_given=True
    )
    assert shlex.split(rerun_command(run))[2:] == [
        *("my suite@v2", "--target", "t", "--judge", "j", "--split", "dev", "--tag", "a b", "--id", "x*"),
        *("--limit", "3", "--temperature", "0.7", "--max-tokens", "9"),
        *("--repeat", "2", "--timeout", "7.5", "--min-pass-rate", "0.123456789"),
    ]


def test_a_regrade_asks_no_target() -> None:
    assert rerun_command(make_run(regrade_of="earlier", settings=Settings(threshold=0.5))) == (
        "proctor regrade earlier --threshold 0.5"
    )


@pytest.mark.parametrize("name", ["$(rm -rf x)", "a'b", "; ls"])
def test_no_name_is_a_command_of_its_own(name: str) -> None:
    run = make_run(suite=Suite(name=name, dialect="meridian"))
    assert shlex.split(rerun_command(run)) == ["proctor", "run", name, "--target", "openai:m"]
