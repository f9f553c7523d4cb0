from __future__ import annotations

import msgspec
import pytest

from proctor.graders.unscored import Unscored
from proctor.model import Case, Output
from proctor.protocols import GradingInput


def test_the_reason_is_given_and_nothing_else() -> None:
    graded = GradingInput(case=Case(id="c", input=()), output=Output(text="anything"))
    mark = Unscored(reason="No rule tells irony.").grade(graded)
    assert (mark.value, mark.passed, mark.reason) == (None, None, "No rule tells irony.")


def test_a_reason_is_needed() -> None:
    with pytest.raises(msgspec.ValidationError, match="say in a sentence"):
        msgspec.convert({"reason": " "}, Unscored)
