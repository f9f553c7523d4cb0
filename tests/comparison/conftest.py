"""Runs as comparisons hold them, in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.comparison.outcomes import CaseOutcomes, RunOutcomes, TrialOutcome
from proctor.model import Run, Suite, TargetSpec, Verdict

Make = Callable[..., Any]
VERDICTS = {"+": Verdict.PASS, "-": Verdict.FAIL, "!": Verdict.ERROR, "?": Verdict.UNSCORED}


@pytest.fixture(scope="session")
def of(trial: Make) -> Callable[..., RunOutcomes]:
    """The facts of a run: each case by name, with a sign for each of its trials; or a case for each sign.

    The signs are + for PASS, - for FAIL, ! for ERROR, ? for UNSCORED and a blank for no trial. Further fields
    are those of the run, or by case: category, tags, split, keys, and numbers for each of its trials.
    """

    def make(name: str, signs: dict[str, str] | str, **fields: Any) -> RunOutcomes:
        cases = {f"c{n}": sign for n, sign in enumerate(signs)} if isinstance(signs, str) else signs
        split, category, tags = (fields.pop(key, {}) for key in ("split", "category", "tags"))
        numbers, keys = fields.pop("numbers", {}), fields.pop("keys", {})
        found = tuple(
            CaseOutcomes(
                id=case,
                key=keys.get(case, case),
                category=category.get(case),
                tags=tags.get(case, ()),
                split=split.get(case),
                trials=tuple(
                    TrialOutcome(repeat=place, verdict=VERDICTS[sign], **numbers.get(case, {}))
                    for place, sign in enumerate(of_case)
                    if sign != " "
                ),
            )
            for case, of_case in cases.items()
        )
        trials = sum(len(case.trials) for case in found)
        given: dict[str, Any] = {
            "id": name,
            "group": "g",
            "suite": Suite(name="s", dialect="d"),
            "target": TargetSpec(name="echo", kind="echo"),
            "started_at": trial("").started_at,
            "status": "finished",
            "planned": trials,
        }
        prompts = fields.pop("prompts", {})
        return RunOutcomes(run=Run(**given | fields), cases=found, trials=trials, prompts=prompts)

    return make
