"""Renders calibrations of judges as documents, plain data and charts, and as notes on a run. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import (
    BiasTest,
    IntervalEstimate,
    Proportion,
    agreement,
    base_rate,
    changed_p_value,
    changed_share,
    consistency,
    corrected_pass_rate,
    find_biases,
    human_agreement,
    net_p_value,
    net_shift,
    sensitivity,
    specificity,
)
from proctor.charts import Bar, Chart, forest
from proctor.model import Calibration, Run, VerdictShift
from proctor.plurals import pluralize
from proctor.reports.document import Block, Code, Column, Facts, Heading, Paragraph, Rate, Table
from proctor.reports.formatting import (
    format_utc,
    interval,
    p_value,
    percent,
    percentage_points,
    probability,
    round_interval,
)
from proctor.safe_text import one_line
from proctor.verdicts import Tally

MIN_LABELS = 20
"""With fewer labels of a kind, a note warns that they say little."""


# --- one calibration in a sentence -------------------------------------------------------------------------


def describe_agreement(calibration: Calibration) -> str:
    """Returns how far a judge agrees with people, as a clause without its subject and full stop."""
    clause = f"agrees with people on {_share_text(agreement(calibration))}, {_kappa_text(calibration)}"
    wrong = specificity(calibration)
    if not wrong.total:
        return f"{clause}; it saw no answer that people fail"
    passed = Proportion(wrong.total - wrong.hits, wrong.total)
    return f"{clause}; it passes {percent(passed.value)} ({interval(passed.ci95)}) of what people fail"


def _kappa_text(calibration: Calibration) -> str:
    if calibration.kappa is None or calibration.kappa_ci95 is None:
        return "kappa undefined"
    low, high = calibration.kappa_ci95
    return f"kappa {calibration.kappa:.2f} ({low:.2f} to {high:.2f})"


def _share_text(share: Proportion) -> str:
    return (
        f"{share.hits:,} of {pluralize(share.total, 'answer')} ({percent(share.value)}, "
        f"{interval(share.ci95)})"
    )


# --- notes on a run ----------------------------------------------------------------------------------------


class RunJudge(Struct, frozen=True, kw_only=True):
    """A judge of a run with its calibration."""

    name: str
    calibration: Calibration | None
    """None if it has no calibration."""
    other_prompts: bool = False
    """Whether the run used prompts that the calibration does not cover."""
    corrected_pass_rate: IntervalEstimate | None = None
    """The estimated share of answers that people would pass; None unless this judge decided all of them."""


def get_run_judges(run: Run, tally: Tally, calibrations: Iterable[Calibration]) -> list[RunJudge]:
    """Returns the judges that judged in a run, by name, with the corrected pass rate of what they decided.

    Args:
        run: the run.
        tally: its numbers.
        calibrations: the calibrations of its judges, named as in the run.
    """
    return [
        judge
        if judge.calibration is None or judge.other_prompts or judge.calibration.for_doubt
        else replace(judge, corrected_pass_rate=_corrected_pass_rate(run, tally, judge.calibration))
        for judge in match_calibrations(tally.judge_stats.prompts, calibrations)
    ]


def match_calibrations(
    prompts: Mapping[str, Collection[str]], calibrations: Iterable[Calibration]
) -> list[RunJudge]:
    """Returns the judges that judged in a run, by name.

    Args:
        prompts: the digests of the prompts, by the name of the judge.
        calibrations: the calibrations of the judges, named as in the run.
    """
    by_name = {calibration.name: calibration for calibration in calibrations}
    return [
        RunJudge(
            name=name,
            calibration=by_name.get(name),
            other_prompts=name in by_name and not set(by_name[name].prompts).issuperset(prompts[name]),
        )
        for name in sorted(prompts)
    ]


def _corrected_pass_rate(run: Run, tally: Tally, calibration: Calibration) -> IntervalEstimate | None:
    """Returns the corrected pass rate of a run that a single judge decided with one vote per answer."""
    alone, counts = tally.judge_stats.judged_counts, tally.all
    measured_count = alone.passed + alone.failed
    by_one = len(tally.judge_stats.prompts) == 1 and run.settings.judge_repeats == 1
    if not by_one or run.suite.repeats_rule != "each" or measured_count != counts.passed + counts.failed:
        return None
    # The judge decided all measured trials: so their repeats and clusters count as in the pass rate.
    effective = counts.effective_cases
    return None if effective is None else corrected_pass_rate(*effective, calibration)


def judge_lines(judges: Sequence[RunJudge], *, labelled: bool = False) -> list[str]:
    """Returns a line for each calibrated judge of a run, and one for all judges without a calibration.

    Args:
        judges: the judges.
        labelled: whether labels of the run's own answers say what people would pass. Then no pass rate is
            corrected by calibrations, and none is missed.
    """
    lines = [
        _judge_line(judge, judge.calibration, corrected=not labelled)
        for judge in judges
        if judge.calibration is not None
    ]
    unknown = [judge.name for judge in judges if judge.calibration is None]
    if unknown and not labelled:
        judge = shlex.quote(unknown[0])
        commands = (
            f"proctor certify --judge {judge} --labels FILE, or, once you have labelled answers of this run, "
            f"proctor certify RUN --judge {judge}"
        )
        *others, last = map(repr, unknown)
        who = f"the judges {', '.join(others)} and {last} agree" if others else f"the judge {last} agrees"
        lines.append(f"It has not been measured whether {who} with people. To measure it: {commands}")
    return lines


def _judge_line(judge: RunJudge, calibration: Calibration, *, corrected: bool) -> str:
    text = f"The judge {judge.name!r} {describe_agreement(calibration)} (measured {calibration.at:%Y-%m-%d})."
    if judge.other_prompts:
        text += " It was measured with other judge prompts than this run uses."
    if corrected and judge.corrected_pass_rate is not None:
        rate = judge.corrected_pass_rate
        text += f" Corrected for that, people would pass {percent(rate.value)} ({interval(rate[1:])})."
    return text


def judge_row(judge: RunJudge) -> dict[str, Any]:
    """Returns the judge and its calibration as plain data."""
    return {
        "judge": judge.name,
        "calibration": None if judge.calibration is None else calibration_row(judge.calibration),
        "other_prompts": judge.other_prompts,
        "corrected_pass_rate": _estimate_row(judge.corrected_pass_rate),
    }


# --- the whole calibration ---------------------------------------------------------------------------------


def named_shares(calibration: Calibration) -> list[tuple[str, Proportion]]:
    """Returns every measured share with its name."""
    times = f"same verdict {calibration.repeats} times"
    shares = [
        ("agrees with people", agreement(calibration)),
        ("passes what people pass", sensitivity(calibration)),
        ("fails what people fail", specificity(calibration)),
        (times, consistency(calibration)),
        ("unchanged by order", _unchanged_share(calibration.position)),
        ("unchanged by length", _unchanged_share(calibration.length)),
        ("people agree among themselves", human_agreement(calibration)),
    ]
    return [(name, share) for name, share in shares if share.total]


def _unchanged_share(shift: VerdictShift | None) -> Proportion:
    if shift is None:
        return Proportion(0, 0)
    change_share = changed_share(shift)
    return Proportion(change_share.total - change_share.hits, change_share.total)


def document_for(calibration: Calibration) -> Iterator[Block]:
    """Yields every measured share with its interval, and the measures as sentences."""
    yield Heading(f"The judge {calibration.name} compared with people's labels, {calibration.at:%Y-%m-%d}")
    digests = {"judge": calibration.judge, "labels": calibration.labels}
    yield Facts([(name, (Code(digest),)) for name, digest in digests.items()], only="markdown")
    yield Table(
        columns=(Column(), Column("answers", "number", 7), Column("rate", "rate")),
        rows=[
            (name, f"{share.hits:,}/{share.total:,}", Rate(share.value, share.ci95, share.total))
            for name, share in named_shares(calibration)
        ],
    )
    yield from map(Paragraph, describe_calibration(calibration))


def describe_calibration(calibration: Calibration) -> Iterator[str]:
    """Yields the measures as sentences."""
    yield f"It {describe_agreement(calibration)}."
    yield f"People pass {_share_text(base_rate(calibration))}."
    if calibration.unscored:
        yield f"It gave no verdict on {calibration.unscored:,} more, which are not counted."
    if calibration.people_twice and calibration.people_alpha is not None:
        yield (
            f"People agree among themselves on {_share_text(human_agreement(calibration))}, "
            f"Krippendorff's alpha {calibration.people_alpha:.2f}. No judge can be expected to agree more."
        )
    if calibration.repeated:
        restless = Proportion(calibration.repeated - calibration.steady, calibration.repeated)
        yield f"Called {calibration.repeats} times, it changes its verdict on {_share_text(restless)}."
    tests = find_biases(calibration)
    repeated = calibration.repeated > 0
    how = "with the material in reverse order"
    yield f"Order: {_shift_text(how, calibration.position, tests.get('position'), repeated=repeated)}"
    how = "when answers are padded with empty words"
    yield f"Length: {_shift_text(how, calibration.length, tests.get('length'), repeated=repeated)}"
    if calibration.length_failed is not None:
        share = Proportion(calibration.length_failed.to_pass, calibration.length_failed.count)
        yield f"Of the answers that people fail, {_share_text(share)} pass when padded."
    yield from describe_caveats(calibration)


def _shift_text(how: str, shift: VerdictShift | None, test: BiasTest | None, *, repeated: bool) -> str:
    if shift is None or test is None:
        return "not measured."
    by, p = net_shift(shift), net_p_value(shift)
    adjusted = f" ({p_value(test.net_p)} adjusted)" if test.net_p > p else ""
    table = f"{shift.to_pass:,} to pass, {shift.to_fail:,} to fail"
    return (
        f"{how}, {_share_text(changed_share(shift))} change, {table}: net "
        f"{percentage_points(by.value)} "
        f"({percentage_points(by.low)} to {percentage_points(by.high)}), sign test "
        f"{probability(p)}{adjusted}. {_bias_text(test, repeated=repeated)}"
    )


def _bias_text(test: BiasTest, *, repeated: bool) -> str:
    match test.bias:
        case "pass":
            return "The judge is biased: more answers pass."
        case "fail":
            return "The judge is biased: fewer answers pass."
        case "change":
            p = probability(test.changed_p)
            return f"Repeated calls change fewer verdicts ({p} adjusted): the judge is biased."
    if repeated:
        return "This shows no bias."
    return "It is not known how many verdicts change when the judge is called again."


def describe_caveats(calibration: Calibration) -> Iterator[str]:
    """Yields caveats."""
    right, wrong = sensitivity(calibration), specificity(calibration)
    if min(right.total, wrong.total) < MIN_LABELS:
        yield (
            f"Note: there are few labels: people pass {pluralize(right.total, 'answer')} and fail "
            f"{wrong.total:,}. Label at least {MIN_LABELS} of each kind."
        )
    if calibration.for_doubt:
        yield (
            f"Note: {calibration.for_doubt:,} of the answers were chosen because judges doubt them. The "
            "judge agrees more on all answers than on these, so this calibration corrects no pass rate. "
            "Label answers in random order."
        )
    if right.ci95 and wrong.ci95 and right.ci95[0] + wrong.ci95[0] <= 1:
        yield (
            "Note: the judge is not shown to be better than a coin flip, so this calibration corrects no "
            "pass rate."
        )


# --- data, chart -------------------------------------------------------------------------------------------


def calibration_row(calibration: Calibration) -> dict[str, Any]:
    """Returns a calibration as plain data."""
    tests = find_biases(calibration)
    return {
        "judge": calibration.name,
        "judge_digest": calibration.judge,
        "at": format_utc(calibration.at),
        "labels_digest": calibration.labels,
        "prompt_digests": list(calibration.prompts),
        "unscored": calibration.unscored,
        "for_doubt": calibration.for_doubt,
        "agreement": _share_row(agreement(calibration)),
        "kappa": calibration.kappa,
        "kappa_ci95": round_interval(calibration.kappa_ci95),
        "sensitivity": _share_row(sensitivity(calibration)),
        "specificity": _share_row(specificity(calibration)),
        "base_rate": _share_row(base_rate(calibration)),
        "repeats": calibration.repeats,
        "consistency": _share_row(consistency(calibration)),
        "position": _shift_row(calibration.position, tests.get("position")),
        "length": _shift_row(calibration.length, tests.get("length")),
        "length_failed": _shift_row(calibration.length_failed, tests.get("length_failed")),
        "people": {**_share_row(human_agreement(calibration)), "alpha": calibration.people_alpha},
    }


def _share_row(share: Proportion) -> dict[str, Any]:
    return {"count": share.hits, "of": share.total, "rate": share.value, "ci95": round_interval(share.ci95)}


def _shift_row(shift: VerdictShift | None, test: BiasTest | None) -> dict[str, Any] | None:
    if shift is None or test is None:
        return None
    return {
        "to_pass": shift.to_pass,
        "to_fail": shift.to_fail,
        "changed": _share_row(changed_share(shift)),
        "changed_p": changed_p_value(shift),
        "changed_p_holm": test.changed_p,
        "net": _estimate_row(net_shift(shift)),
        "net_p": net_p_value(shift),
        "net_p_holm": test.net_p,
        "bias": test.bias,
    }


def _estimate_row(estimate: IntervalEstimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"rate": estimate.value, "ci95": round_interval(estimate[1:])}


def draw_chart(calibration: Calibration) -> Chart:
    """Returns a chart with a dot for each share and a line for its interval."""
    dots = []
    for name, share in named_shares(calibration):
        low, high = share.ci95 or (None, None)
        dots.append(Bar(f"{name} ({share.hits} of {share.total})", share.value or 0.0, low, high))
    title = one_line(f"The judge {calibration.name}: {_kappa_text(calibration)}")
    return forest(dots, title=title, unit="share of answers, with 95 % interval")
