"""Values of environment variables: filled into a trial before it runs, and masked in its results."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.env_substitution import mask, names_in, substitute_in_case, unmask
from proctor.model import Case, Run, Trial
from proctor.plan import PlannedTrial
from proctor.services.runs.planning.judge_choice import all_specs


def fill_variables(planned_trial: PlannedTrial, run: Run, environ: Mapping[str, str]) -> PlannedTrial:
    """Returns a trial with the variables in its case and its stored output replaced by their values."""
    if run.regrade_of is not None and planned_trial.case.workspace is not None:
        planned_trial = replace(
            planned_trial, case=replace(planned_trial.case, workspace=None)
        )  # no target works in this workspace
    if not planned_trial.case.variables:
        return planned_trial
    output = planned_trial.output
    return replace(
        planned_trial,
        case=substitute_in_case(planned_trial.case, environ),
        assertion_digests=tuple(map(assertion_digest, planned_trial.case.assertions)),
        output=None if output is None else unmask(output, planned_trial.case.variables, environ),
    )


def mask_variables(
    trial: Trial, case: Case, program_variables: tuple[str, ...], environ: Mapping[str, str]
) -> Trial:
    """Returns a trial with names of variables in place of their values, in answers and reasons.

    Args:
        trial: the trial.
        case: its case, which names variables.
        program_variables: the variables whose values are passed to programs under test.
        environ: the environment, with the values.
    """
    # Values passed to a program can be in any file of the workspace, and so in any result of a grader.
    names = case.variables if case.workspace is None else (*case.variables, *program_variables)
    return mask(trial, names, environ) if names else trial


def list_program_variables(run: Run) -> tuple[str, ...]:
    """Returns the variables whose values are passed to programs under test."""
    return names_in([spec.options.get("env", {}) for spec in all_specs(run)])


def without_secret_digests(trial: Trial, digests: tuple[str, ...]) -> Trial:
    """Returns the trial without digests of texts with values of variables, as short values could be guessed.

    A judge's prompt may contain such values if the assertion does; it gets the assertion's digest.
    """
    if not digests or not trial.scores:
        return trial
    scores = [
        score
        if score.assertion == digest
        else replace(
            score,
            assertion=digest,
            judgments=tuple([replace(judgment, prompt_digest=digest) for judgment in score.judgments]),
        )
        for score, digest in zip(trial.scores, digests, strict=True)
    ]
    return replace(trial, scores=tuple(scores))
