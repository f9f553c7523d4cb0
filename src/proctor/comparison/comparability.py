"""Sentences about reasons why two runs may not be comparable."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.codec import target_digest
from proctor.comparison.outcomes import RunOutcomes
from proctor.model import Run, Suite, TargetSpec
from proctor.parameters import describe_changes
from proctor.plurals import join_names, pluralize
from proctor.safe_text import truncate
from proctor.suite_diff import Diff

_MAX_NAMED = 5
"""The maximum number of cases named in one list."""
_MAX_VALUE_LENGTH = 120
"""Maximum length of a value in a sentence."""
_FIELDS_IN_NO_DIGEST = frozenset(
    {"tags", "category", "metadata", "notes", "repeats", "only_targets", "variables", "lint"}
)
"""Fields of a case that change neither what is sent nor how it is judged."""


def comparability_warnings(baseline: RunOutcomes, candidate: RunOutcomes) -> tuple[str, ...]:
    """Returns sentences that say why the numbers of two runs may not be comparable."""
    return tuple(_warnings(baseline, candidate))


def _warnings(baseline: RunOutcomes, candidate: RunOutcomes) -> Iterator[str]:
    before, after = baseline.run, candidate.run
    if before.id == after.id:
        yield f"Run {before.id} is compared with itself."
        return
    is_by_id = baseline.has_digests
    if is_by_id and before.suite.name != after.suite.name:
        yield (
            f"Runs {before.id} and {after.id} are of different suites, {before.suite.title} and "
            f"{after.suite.title}: cases with the same id are taken as the same case."
        )
    ways = list(_grading_differences(before, after, judged=bool(baseline.prompts or candidate.prompts)))
    if ways:
        yield (
            f"Runs {before.id} and {after.id} were graded differently: {'; '.join(ways)}. What differs can "
            "come from that. Grade one like the other with `proctor regrade`."
        )
    fields = [outcomes.cluster_field for outcomes in (baseline, candidate)]
    if fields[0] != fields[1]:
        names = ["independent" if field is None else f"related by `{field}`" for field in fields]
        yield (
            f"Cases are {names[0]} in run {before.id} and {names[1]} in run {after.id}. Pass --cluster "
            "to treat both the same way."
        )
    if before.target.name == after.target.name and target_digest(before.target) != target_digest(
        after.target
    ):
        yield (
            f"Runs {before.id} and {after.id} have the same target name, {before.target.name!r}, and "
            f"different targets: {', '.join(_target_differences(before.target, after.target))}."
        )


def _target_differences(before: TargetSpec, after: TargetSpec) -> Iterator[str]:
    """Yields what differs between two targets, such as `temperature 0 → 1`; options by name only."""
    for name in ("kind", "model", "endpoint"):
        values = [getattr(spec, name) for spec in (before, after)]
        if values[0] != values[1]:
            texts = [truncate(value, _MAX_VALUE_LENGTH) if value else "unset" for value in values]
            yield f"{name} {' → '.join(texts)}"
    yield from describe_changes(before.params, after.params)
    options = [spec.options for spec in (before, after)]
    for name in sorted(options[0].keys() | options[1].keys()):
        # The folder of the targets file differs between machines, though the target is the same.
        if name != "folder" and options[0].get(name) != options[1].get(name):
            yield f"option {truncate(name, _MAX_VALUE_LENGTH)}"
    fallbacks = [[target_digest(fallback) for fallback in spec.fallbacks] for spec in (before, after)]
    if fallbacks[0] != fallbacks[1]:
        names = [" then ".join(fallback.name for fallback in spec.fallbacks) for spec in (before, after)]
        texts = [truncate(name, _MAX_VALUE_LENGTH) if name else "unset" for name in names]
        yield f"fallbacks {' → '.join(texts)}" if names[0] != names[1] else "settings of the fallbacks"


def _grading_differences(before: Run, after: Run, *, judged: bool) -> Iterator[str]:
    """Yields the differences in grading, each as a clause."""
    rules = [_describe_rule(run) for run in (before, after)]
    if rules[0] != rules[1]:
        yield f"a case passed {rules[0]} in the first and {rules[1]} in the second"
    if before.suite.repeats_rule != "each" and before.settings.repeats != after.settings.repeats:
        times = [run.settings.repeats or "any number of" for run in (before, after)]
        yield f"each case counts once over {times[0]} answers in the first and {times[1]} in the second"
    if not judged:
        return
    names = [_describe_judges(run) for run in (before, after)]
    if names[0] != names[1]:
        yield f"{names[0]} judged the first and {names[1]} the second"
    elif _judging_key(before) != _judging_key(after):
        yield f"{names[0]} judged both, with different settings"


def _describe_rule(run: Run) -> str:
    threshold = run.settings.threshold
    if threshold is None:
        threshold = run.suite.pass_rule.threshold
    return "by its checks" if threshold is None else f"at a score of {threshold:g}"


def _judging_key(run: Run) -> tuple[object, ...]:
    """Returns everything that determines the judges and how often they are called."""
    settings = run.settings
    judges = {target_digest(spec) for spec in (*run.judges, *run.named_judges)}
    return judges, settings.judge_repeats, settings.judge_rule


def _describe_judges(run: Run) -> str:
    names = dict.fromkeys(spec.name for spec in (*run.judges, *run.named_judges))
    text = " and ".join(names) or "nobody"
    return text if run.settings.judge_repeats == 1 else f"{text} ({run.settings.judge_repeats} times)"


# --- different suites --------------------------------------------------------------------------------------


def incomparable_reason(baseline: Suite, candidate: Suite, diff: Diff) -> str:
    """Returns a sentence with the differences of two suites of which no case can be paired.

    Args:
        baseline: the first suite.
        candidate: the second suite.
        diff: their differences.
    """
    differences = [
        f"{pluralize(len(ids), 'case')} only in {where} ({join_names(ids, _MAX_NAMED)})"
        for ids, where in ((diff.removed, "the first"), (diff.added, "the second"))
        if ids
    ]
    renames = [f"{entry.old} → {entry.new}" for entry in diff.renamed]
    if renames:
        differences.append(
            f"{pluralize(len(renames), 'case')} with another id ({join_names(renames, _MAX_NAMED)})"
        )
    changed = [
        f"{entry.case}: {join_names(fields, 2)}"
        for entry in diff.changed
        if (fields := [change.field for change in entry.changes if not _is_irrelevant(change.field)])
    ]
    if changed:
        differences.append(f"{pluralize(len(changed), 'case')} changed ({join_names(changed, _MAX_NAMED)})")
    rules = [change.field for change in diff.header if change.field.startswith(("pass_rule", "repeats_rule"))]
    if rules:
        differences.append(
            f"the suite's {join_names(sorted({field.partition('.')[0] for field in rules}), _MAX_NAMED)} "
            "changed"
        )
    names = f"{baseline.title} and {candidate.title}"
    return (
        f"The runs are of different suites, {names}, and no case has the same id and the same checks in "
        "both: "
        f"{'; '.join(differences) or 'their digests differ'}."
    )


def _is_irrelevant(field: str) -> bool:
    return field.partition(".")[0].partition("[")[0] in _FIELDS_IN_NO_DIGEST
