"""Checks of a trial against its case: what a trial of an invalid case cannot have."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from proctor.codec import sent_digest
from proctor.invalid_cases import setup_failure
from proctor.model import Case, Output, Problem, Trial
from proctor.proof.check_records import check_trial
from proctor.proof.check_statement import BundleDefect
from proctor.proof.records import CaseLine

CASE = Case(id="a", input=(), problems=(Problem(code="bad-json", message="The line is not JSON."),))
LINE = CaseLine(0, "00", CASE, sent_digest(CASE))
TRIAL = Trial(
    case_id="a", position=0, sent=LINE.sent, failure=setup_failure(CASE), started_at=datetime.now(UTC)
)


def test_the_error_of_an_invalid_case_is_right() -> None:
    check_trial("trials.jsonl:1", LINE, TRIAL, None)


def test_no_answer_is_of_an_invalid_case() -> None:
    with pytest.raises(BundleDefect, match="the case is invalid in its file"):
        check_trial("trials.jsonl:1", LINE, replace(TRIAL, failure=None, output=Output(text="x")), None)
