"""Suites and runs in a store, without a file or a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.codec import sent_digest
from proctor.model import Case, Run, Suite
from proctor.protocols import Store
from support.builders import make_case, make_run


def save_cases(store: Store, cases: Sequence[Case], **fields: Any) -> Suite:
    """Saves a suite of those cases in a store; the fields are the suite's."""
    writer = store.open_suite_writer()
    for case in cases:
        writer.add(case, sent_digest(case))
    defaults: dict[str, Any] = {"name": "s", "dialect": "meridian", "digest": "sha256:" + "ab" * 32}
    return writer.commit(Suite(**defaults | {"case_count": len(cases)} | fields))


def add_run(store: Store, suite: Suite, **fields: Any) -> Run:
    """Begins a run of a saved suite; the fields are the run's."""
    run = make_run(**{"suite": suite, "group": "g", "planned": suite.case_count} | fields)
    store.add_run(run)
    return run


def begin_run(store: Store, run_id: str = "r1", cases: int = 3) -> Run:
    """Begins a run of a suite of that many cases in a store."""
    return add_run(store, save_cases(store, [make_case(f"c{number}") for number in range(cases)]), id=run_id)
