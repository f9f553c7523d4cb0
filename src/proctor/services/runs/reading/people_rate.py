"""Labels of a run's own answers → the pass rate that people would give it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from proctor.calibration import MIN_DRAWN_LABELS, DrawnLabel, PeoplePassRate, majority, people_pass_rate
from proctor.clusters import cluster_key, make_cluster_lookup
from proctor.model import Label, Run, Verdict
from proctor.protocols import CaseInRun, Store
from proctor.verdicts import Counts, PassRuleLookup, Tally, decide_verdict, pass_rules_for

_PASSED = {Verdict.PASS: True, Verdict.FAIL: False}


def find_people_rate(store: Store, run: Run, tally: Tally) -> PeoplePassRate | None:
    """Returns the pass rate that people would give a run, from the labels of its answers in a store.

    Labels of held-out answers are not read: they would reveal how many of them people pass.

    Args:
        store: has the run and the labels.
        run: the run.
        tally: its numbers.

    Returns:
        None unless judges decided every measured trial, and enough answers were drawn and labelled.

    Raises:
        StoreError: the store cannot be read.
    """
    judged, counts = tally.judge_stats.judged_counts, tally.all
    if run.suite.repeats_rule != "each" or judged.passed + judged.failed != counts.passed + counts.failed:
        return None
    by_answer: dict[tuple[str, int], list[Label]] = defaultdict(list)
    for stored_label in store.labels(run.id):
        if not stored_label.held_out:
            by_answer[stored_label.label.case_id, stored_label.label.repeat].append(stored_label.label)
    drawn = {key: labels for key, labels in by_answer.items() if any(label.drawn for label in labels)}
    population = tally.splits.get("dev", counts) if "holdout" in tally.splits else counts
    judgments, effective = population.passed + population.failed, population.effective_cases
    if len(drawn) < MIN_DRAWN_LABELS or population.pass_rate is None or effective is None:
        return None
    rate = people_pass_rate(
        list(_read_drawn_labels(store, run, drawn, population)),
        judge_rate=population.pass_rate,
        judgments=judgments,
        cases=effective[1],
    )
    if rate is None:
        return None
    held_out = counts.passed + counts.failed - judgments
    return replace(rate, not_drawn=len(by_answer) - len(drawn), held_out=held_out)


def _read_drawn_labels(
    store: Store, run: Run, labels: dict[tuple[str, int], list[Label]], population: Counts
) -> Iterator[DrawnLabel]:
    """Yields the labels on which people are not divided, of answers with a verdict."""
    rules, cluster_for = pass_rules_for(run), make_cluster_lookup(run.settings.cluster)
    clusters = population.clusters or {}
    repeats_by_case: dict[str, list[int]] = defaultdict(list)
    for case_id, repeat in labels:
        repeats_by_case[case_id].append(repeat)
    for position, head in enumerate(store.case_heads(run.suite.content)):
        repeats = repeats_by_case.pop(head.id, None)
        if repeats is None:
            continue
        case_in_run = store.case_in_run(run, position)
        if case_in_run is None:
            continue
        verdicts = _read_verdicts(case_in_run, rules)
        group = head.id if cluster_for is None else cluster_for(case_in_run.case.case)
        for repeat in repeats:
            passed = majority([label.passed for label in labels[head.id, repeat]])
            if passed is not None and repeat in verdicts:
                total, cases = clusters.get(cluster_key(group), (sum(verdicts.values()) / len(verdicts), 1))
                yield replace(
                    _drawn_label(labels[head.id, repeat], group, passed, verdicts[repeat], len(verdicts)),
                    group_rate=min(1.0, total / cases),
                    group_share=cases / population.cases,
                )
        if not repeats_by_case:
            return


def _read_verdicts(case_in_run: CaseInRun, rules: PassRuleLookup) -> dict[int, bool]:
    """Returns whether each measured trial of a case passed, by its repeat."""
    rule = rules(case_in_run.case.case)
    verdicts = {
        stored.trial.repeat: _PASSED.get(decide_verdict(stored.trial, rule))
        for stored in case_in_run.trials
        if stored.verdict is not None
    }
    return {repeat: passed for repeat, passed in verdicts.items() if passed is not None}


def _drawn_label(
    labels: Sequence[Label], group: str, passed: bool, judge_passed: bool, repeats: int
) -> DrawnLabel:
    draws = {label.drawn for label in labels}
    return DrawnLabel(
        group=group,
        passed=passed,
        judge_passed=judge_passed,
        drawn="random" if "random" in draws else "doubt",
        doubt=next((label.doubt for label in labels if label.doubt is not None), 1.0),
        repeats=repeats,
    )
