"""Runs as comparisons hold them, in one line."""

from __future__ import annotations

from typing import Any

from proctor.comparison.outcome_table import CaseOutcomes, TrialOutcome
from proctor.comparison.outcomes import RunOutcomes
from proctor.model import Suite, Verdict
from support.builders import make_run

SIGNS = {"+": Verdict.PASS, "-": Verdict.FAIL, "!": Verdict.ERROR, "?": Verdict.UNSCORED}


def make_outcomes(name: str, signs: dict[str, str] | str, **fields: Any) -> RunOutcomes:
    """The facts of a run: each case by name, with a sign for each of its trials; or a case for each sign.

    The signs are + for PASS, - for FAIL, ! for ERROR, ? for UNSCORED and a blank for no trial. Further fields
    are those of the run, or by case: category, tags, split, clusters, keys, and numbers for each of its
    trials.
    """
    cases = {f"c{n}": sign for n, sign in enumerate(signs)} if isinstance(signs, str) else signs
    split, category, tags = (fields.pop(key, {}) for key in ("split", "category", "tags"))
    clusters = fields.pop("clusters", {})
    numbers, keys, prompts = (fields.pop(key, {}) for key in ("numbers", "keys", "prompts"))
    outcomes = tuple(
        CaseOutcomes(
            id=case,
            key=keys.get(case, case),
            category=category.get(case),
            tags=tags.get(case, ()),
            split=split.get(case),
            cluster=clusters.get(case),
            trials=tuple(
                TrialOutcome(repeat=place, verdict=SIGNS[sign], **numbers.get(case, {}))
                for place, sign in enumerate(of_case)
                if sign != " "
            ),
        )
        for case, of_case in cases.items()
    )
    trials = sum(len(case.trials) for case in outcomes)
    defaults: dict[str, Any] = {"id": name, "group": "g", "suite": Suite(name="s", dialect="d")}
    run = make_run(**defaults | {"status": "finished", "planned": trials} | fields)
    field = "metadata.text" if clusters else None
    return RunOutcomes(run=run, cases=outcomes, trials=trials, prompts=prompts, cluster_field=field)
