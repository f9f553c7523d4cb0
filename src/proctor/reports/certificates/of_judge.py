"""Calibrations to text, JSON, Markdown and a drawing, and to the lines beside the numbers of a run. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import (
    Estimate,
    Share,
    agreement,
    among_people,
    base_rate,
    bias,
    changed,
    changed_p,
    consistency,
    corrected,
    net,
    net_p,
    sensitivity,
    specificity,
)
from proctor.charts import Bar, Chart, forest
from proctor.model import Calibration, Sway
from proctor.plurals import counted
from proctor.reports.formatting import AXIS_HEAD, drawn, interval, percent, points, probability, rounded, utc
from proctor.reports.runs.serialize import Reported
from proctor.safe_text import markdown_text, one_line

FEW = 20
"""Fewer labels of a kind than this say little, and a note says so."""


# --- one calibration in a sentence -------------------------------------------------------------------------


def sentence(found: Calibration) -> str:
    """What a judge is worth, as a clause without its subject and without an end."""
    clause = f"agrees with people on {_counted(agreement(found))}, {_kappa(found)}"
    wrong = specificity(found)
    if not wrong.of:
        return f"{clause}; it was shown nothing that people fail"
    passed = Share(wrong.of - wrong.hits, wrong.of)
    return f"{clause}; it passes {percent(passed.value)} ({interval(passed.ci95)}) of what people fail"


def _kappa(found: Calibration) -> str:
    if found.kappa is None or found.kappa_ci95 is None:
        return "kappa undefined"
    low, high = found.kappa_ci95
    return f"kappa {found.kappa:.2f} ({low:.2f} to {high:.2f})"


def _counted(share: Share) -> str:
    return f"{share.hits:,} of {counted(share.of, 'answer')} ({percent(share.value)}, {interval(share.ci95)})"


# --- beside the numbers of a run ---------------------------------------------------------------------------


class RunJudge(Struct, frozen=True, kw_only=True):
    """A judge of a run, and what is known of it."""

    name: str
    found: Calibration | None
    """None: nobody has measured it."""
    other_prompts: bool = False
    """The run asked it by prompts that it was not measured with."""
    people_pass: Estimate | None = None
    """What people would pass of the answers that this judge decided alone."""


def judges_of(reported: Reported) -> list[RunJudge]:
    """The judges that spoke in a run, by name, with what people would pass of what they decided."""
    return [
        judge
        if judge.found is None or judge.other_prompts
        else replace(judge, people_pass=_people_pass(reported, judge.found))
        for judge in judges_known(reported.tally.judging.prompts, reported.calibrations)
    ]


def judges_known(
    prompts: Mapping[str, Collection[str]], calibrations: Iterable[Calibration]
) -> list[RunJudge]:
    """The judges that spoke in a run, by name.

    Args:
        prompts: the digests of the prompts that each was asked by.
        calibrations: what is known of any of them, each under its name in the run.
    """
    known = {one.name: one for one in calibrations}
    return [
        RunJudge(
            name=name,
            found=known.get(name),
            other_prompts=name in known and not set(known[name].prompts).issuperset(prompts[name]),
        )
        for name in sorted(prompts)
    ]


def _people_pass(reported: Reported, found: Calibration) -> Estimate | None:
    """The corrected pass rate of a run that one judge, asked once an answer, decided alone."""
    run, alone, counts = reported.run, reported.tally.judging.alone, reported.tally.all
    measured = alone.passed + alone.failed
    by_one = len(reported.tally.judging.prompts) == 1 and run.settings.judge_repeats == 1
    if not by_one or run.suite.repeats_rule != "each" or measured != counts.passed + counts.failed:
        return None
    # Repeats of a case are not independent, so that each case counts once.
    cases = max(1, min(alone.cases, measured))
    return corrected(round(alone.passed / measured * cases), cases, found) if measured else None


def judge_lines(judges: Sequence[RunJudge]) -> list[str]:
    """What is known of the judges of a run: a line for each, and one for all that nobody has measured."""
    lines = [_judge_line(judge, judge.found) for judge in judges if judge.found is not None]
    unknown = [judge.name for judge in judges if judge.found is None]
    if unknown:
        command = f"proctor certify --judge {shlex.quote(unknown[0])} --labels FILE"
        who = f"the judge {unknown[0]!r} agrees" if len(unknown) == 1 else f"{_listed(unknown)} agree"
        lines.append(f"Nobody has measured whether {who} with people: {command}")
    return lines


def _judge_line(judge: RunJudge, found: Calibration) -> str:
    text = f"The judge {judge.name!r} {sentence(found)} (measured {found.at:%Y-%m-%d})."
    if judge.other_prompts:
        text += " This run asked it by other prompts than it was measured with."
    if judge.people_pass is not None:
        rate = judge.people_pass
        text += f" Corrected for that, people would pass {percent(rate.value)} ({interval(rate[1:])})."
    return text


def _listed(names: Sequence[str]) -> str:
    return f"the judges {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"


def judge_row(judge: RunJudge) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "judge": judge.name,
        "calibration": None if judge.found is None else row(judge.found),
        "other_prompts": judge.other_prompts,
        "corrected_pass_rate": _estimate_row(judge.people_pass),
    }


# --- the whole calibration ---------------------------------------------------------------------------------


def measures(found: Calibration) -> list[tuple[str, Share]]:
    """Every share that was measured, with its name."""
    times = f"says the same {found.repeats} times"
    shares = [
        ("agrees with people", agreement(found)),
        ("passes what people pass", sensitivity(found)),
        ("fails what people fail", specificity(found)),
        (times, consistency(found)),
        ("unmoved by the order", _unmoved(found.position)),
        ("unmoved by length", _unmoved(found.length)),
        ("people agree among themselves", among_people(found)),
    ]
    return [(name, share) for name, share in shares if share.of]


def _unmoved(sway: Sway | None) -> Share:
    if sway is None:
        return Share(0, 0)
    moved = changed(sway)
    return Share(moved.of - moved.hits, moved.of)


def lines(found: Calibration) -> Iterator[str]:
    """All that was measured, for a terminal."""
    shares = measures(found)
    width = max((len(name) for name, _ in shares), default=0)
    yield one_line(f"The judge {found.name} beside the labels of people, {found.at:%Y-%m-%d}")
    yield ""
    yield f"{'':<{width}}  answers    rate  {AXIS_HEAD}"
    for name, share in shares:
        cell = f"{share.hits:,}/{share.of:,}"
        yield (
            f"{name:<{width}}  {cell:>7}  {percent(share.value):>6}  {drawn(share.value, share.ci95)}  "
            f"{interval(share.ci95)}"
        )
    yield ""
    yield from sentences(found)


def sentences(found: Calibration) -> Iterator[str]:
    """What the shares come to, in words."""
    yield f"It {sentence(found)}."
    yield f"People pass {_counted(base_rate(found))}."
    if found.unscored:
        yield f"On {found.unscored:,} more it gave no verdict; they count for neither side."
    if found.people_twice and found.people_alpha is not None:
        yield (
            f"People agree among themselves on {_counted(among_people(found))}, Krippendorff's alpha "
            f"{found.people_alpha:.2f}: no judge can be asked for more."
        )
    if found.repeated:
        restless = Share(found.repeated - found.steady, found.repeated)
        yield f"Asked {found.repeats} times, it changes its mind on {_counted(restless)}."
    yield from _told("Order", "with the material in reverse order", found.position, found)
    yield from _told("Length", "when an answer is padded with words that say nothing", found.length, found)
    if found.length_failed is not None:
        share = Share(found.length_failed.to_pass, found.length_failed.count)
        yield f"Of what people fail, {_counted(share)} turn to pass when padded."
    yield from notes(found)


def _told(name: str, how: str, sway: Sway | None, found: Calibration) -> Iterator[str]:
    if sway is None:
        yield f"{name}: not measured."
        return
    by, test = net(sway), probability(net_p(sway))
    table = f"{sway.to_pass:,} to pass, {sway.to_fail:,} to fail"
    yield (
        f"{name}: {how}, {_counted(changed(sway))} change, {table}: net {points(by.value)} "
        f"({points(by.low)} to {points(by.high)}), sign test {test}. {_found(sway, found)}"
    )


def _found(sway: Sway, found: Calibration) -> str:
    match bias(sway):
        case "pass":
            return "It is biased: more pass so."
        case "fail":
            return "It is biased: fewer pass so."
        case "change":
            return f"That is more than asking again changes ({probability(changed_p(sway))}): it is biased."
    if found.repeated:
        return "That is no more than chance explains."
    return "How much asking again changes is not known."


def notes(found: Calibration) -> Iterator[str]:
    """What to bear in mind."""
    right, wrong = sensitivity(found), specificity(found)
    for share, what in ((right, "pass"), (wrong, "fail")):
        if share.of < FEW:
            yield f"Note: only {share.of:,} of the answers are such as people {what}. Label {FEW} of each."
    if right.ci95 and wrong.ci95 and right.ci95[0] + wrong.ci95[0] <= 1:
        yield "Note: it is not shown to be better than a coin, so no pass rate can be corrected by it."


# --- data, Markdown, drawing -------------------------------------------------------------------------------


def row(found: Calibration) -> dict[str, Any]:
    """A calibration as plain data."""
    return {
        "judge": found.name,
        "judge_digest": found.judge,
        "at": utc(found.at),
        "labels_digest": found.labels,
        "prompt_digests": list(found.prompts),
        "unscored": found.unscored,
        "agreement": _share_row(agreement(found)),
        "kappa": found.kappa,
        "kappa_ci95": rounded(found.kappa_ci95),
        "sensitivity": _share_row(sensitivity(found)),
        "specificity": _share_row(specificity(found)),
        "base_rate": _share_row(base_rate(found)),
        "repeats": found.repeats,
        "consistency": _share_row(consistency(found)),
        "position": _sway_row(found.position),
        "length": _sway_row(found.length),
        "length_failed": _sway_row(found.length_failed),
        "people": {**_share_row(among_people(found)), "alpha": found.people_alpha},
    }


def _share_row(share: Share) -> dict[str, Any]:
    return {"count": share.hits, "of": share.of, "rate": share.value, "ci95": rounded(share.ci95)}


def _sway_row(sway: Sway | None) -> dict[str, Any] | None:
    if sway is None:
        return None
    return {
        "to_pass": sway.to_pass,
        "to_fail": sway.to_fail,
        "changed": _share_row(changed(sway)),
        "changed_p": changed_p(sway),
        "net": _estimate_row(net(sway)),
        "net_p": net_p(sway),
        "bias": bias(sway),
    }


def _estimate_row(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"rate": estimate.value, "ci95": rounded(estimate[1:])}


def markdown(found: Calibration) -> str:
    """All that was measured, for a page."""
    parts = [
        f"# The judge {markdown_text(found.name)} beside the labels of people\n",
        f"{found.at:%Y-%m-%d}, judge `{found.judge}`, labels `{found.labels}`.\n",
        "| | Answers | Of | Rate | 95 % interval |\n|---|--:|--:|--:|---|",
        *(
            f"| {name} | {share.hits} | {share.of} | {percent(share.value)} | {interval(share.ci95)} |"
            for name, share in measures(found)
        ),
        "",
        *(f"{markdown_text(line)}\n" for line in sentences(found)),
    ]
    return "\n".join(parts)


def chart(found: Calibration) -> Chart:
    """A dot for each share, on a line for its interval."""
    dots = []
    for name, share in measures(found):
        low, high = share.ci95 or (None, None)
        dots.append(Bar(f"{name} ({share.hits} of {share.of})", share.value or 0.0, low, high))
    title = one_line(f"The judge {found.name}: {_kappa(found)}")
    return forest(dots, title=title, unit="share of answers, with 95 % interval")
