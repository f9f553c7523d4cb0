"""What may stand on the certificate of a run, and in which words. Pure.

Numbers come from a bundle that was checked. Here is decided whether they are enough for a certificate, and
what the certificate calls them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import ceil
from typing import Literal

from msgspec import Struct

from proctor.errors import ExitCode, ProctorError
from proctor.model import Run, Selection, Standing
from proctor.plurals import counted, counted_once
from proctor.verdicts import threshold_of

MIN_CASES = 20
"""Fewer say too little: of 20 cases the 95 % interval is up to 40 points wide, of 10 up to 53."""

Word = Literal["verified", "recounted", "self-attested", "claimed"]
"""What a number is called: the first of these without an objection.

`verified`: every score was derived from the answers again, and a trusted key signed it. `recounted`: some
scores are those of judges or programs and were counted as they stand. `self-attested`: no trusted key
signed it, or its answers were. `claimed`: the trials that it counts are hidden.
"""


class Terms(Struct, frozen=True, kw_only=True):
    """What a certificate asks for."""

    min_cases: int = MIN_CASES
    allow_errors: int = 0
    """At most this many trials may be ERROR or UNSCORED."""


class Measured(Struct, frozen=True, kw_only=True):
    """What the number of a run is of."""

    part: Literal["all", "dev", "holdout"]
    """Which cases: `dev` for a run of a split suite that asked no held-out case."""
    cases: int
    not_measured: int
    """Trials that are ERROR or UNSCORED, in whatever part of the run."""
    hidden_trials: int
    """Trials that the bundle hides."""
    selection: Selection = Selection()
    suite_cases: int = 0
    """All cases of the suite."""
    share: float | None = None
    """How much of them is held out; None where nothing is."""


class Hindrance(Struct, frozen=True, kw_only=True):
    """Why a run gets no certificate, unless it is forced."""

    sentence: str
    remedy: str = ""
    """What to do, where the sentence does not say it; no certificate needs it."""
    short: str
    """For a badge."""
    exit_code: ExitCode = ExitCode.FAILED


class Condition(Struct, frozen=True, kw_only=True):
    """What has to be known of a run to understand its number."""

    sentence: str
    short: str = ""
    """For a badge, where the number would be another one without it."""


class NotCertified(ProctorError):
    """A run that gets no certificate; the text has every reason."""

    overruled = "With --force it is certified all the same, and says so."
    """The end of the text: how the user may have it all the same."""

    def __init__(self, hindrances: Sequence[Hindrance]) -> None:
        reasons = " ".join(
            part for objection in hindrances for part in (objection.sentence, objection.remedy) if part
        )
        super().__init__(f"Not certified. {reasons} {self.overruled}")
        self.exit_code = max(objection.exit_code for objection in hindrances)


def measured(
    run: Run, *, split: Literal["holdout", "all"], cases: int, not_measured: int, hidden_trials: int
) -> Measured:
    """What the headline of a run is of.

    Args:
        run: the run.
        split: which of its claims that is.
        cases: how many cases it counts.
        not_measured: how many trials of the run are ERROR or UNSCORED, in whatever part of it.
        hidden_trials: how many trials the bundle hides; they are held out.
    """
    dev_alone = split == "all" and run.settings.selection.split == "dev" and run.suite.split_rule is not None
    return Measured(
        part="dev" if dev_alone else split,
        cases=cases,
        not_measured=not_measured,
        hidden_trials=hidden_trials if split == "holdout" else 0,
        selection=run.settings.selection,
        suite_cases=run.suite.case_count,
        share=None if run.suite.split_rule is None else run.suite.split_rule.ratio,
    )


def hindrances(of: Measured, terms: Terms) -> tuple[Hindrance, ...]:
    """Returns all objections to a certificate."""
    return (*_size_objections(of, terms), *_selection_objections(of), *_hidden_objections(of))


def _size_objections(of: Measured, terms: Terms) -> Iterator[Hindrance]:
    if of.not_measured > terms.allow_errors:
        yield Hindrance(
            sentence=f"{counted(of.not_measured, 'trial')} could not be measured (ERROR or UNSCORED), and at "
            f"most {terms.allow_errors:,} may be: --allow-errors.",
            short=counted(of.not_measured, "error"),
            exit_code=ExitCode.NOT_MEASURED,
        )
    if of.cases < terms.min_cases:
        noun = "case" if of.part == "all" else f"{of.part} case"
        yield Hindrance(
            sentence=f"{counted(of.cases, noun)} {'says' if of.cases == 1 else 'say'} too little; it takes "
            f"{terms.min_cases:,}.",
            remedy=_ways_out(of, terms.min_cases),
            short=counted(of.cases, "case"),
        )


def _ways_out(of: Measured, minimum: int) -> str:
    """Returns how a run gets that many cases; for a holdout also how large its suite must be."""
    takes, larger = "", ""
    if of.part == "holdout" and of.share is not None:
        whole = counted(ceil(minimum / Decimal(str(of.share))), "case")
        takes = f"With {of.share * 100:g} % held out that is a suite of {whole}. "
        per_cent = ceil(Decimal(100 * minimum) / of.suite_cases) if of.suite_cases else 100
        if per_cent < 100:
            larger = f" hold out {per_cent} % of these {of.suite_cases:,} (--holdout {per_cent / 100:g}),"
    return f"{takes}Write more cases,{larger} or lower the minimum (--min-cases)."


def _selection_objections(of: Measured) -> Iterator[Hindrance]:
    if of.part == "dev":
        yield Hindrance(
            sentence="The run asked the dev cases alone, to which prompts are fitted. Run the holdout.",
            short="dev cases alone",
        )
    flags = ", ".join(_selection_flags(of.selection))
    if flags:
        yield Hindrance(
            sentence=f"The run asked only cases that were picked by {flags}. Run all of them.",
            short="picked cases",
        )


def _hidden_objections(of: Measured) -> Iterator[Hindrance]:
    if of.hidden_trials:
        yield Hindrance(
            sentence="The held-out trials are hidden in this bundle, so that their number cannot be derived "
            "again. Certify the full bundle.",
            short="not derived again",
        )


def conditions(run: Run) -> tuple[Condition, ...]:
    """How the number of a run was counted, where that is not the usual way."""
    result = []
    if run.suite.split_rule is None:
        result.append(
            Condition(
                sentence="Nothing was held out: this is the pass rate of all cases, and prompts may have "
                "been fitted to them.",
                short="no holdout",
            )
        )
    if run.settings.threshold is not None:
        bar = f"{run.settings.threshold:g}"
        result.append(
            Condition(
                sentence=f"A case passes from a score of {bar}, as the run was made with --threshold {bar}.",
                short=f"threshold {bar}",
            )
        )
    rule = counted_once(run.suite.repeats_rule, threshold_of(run))
    if rule is not None:
        short = "any repeat" if run.suite.repeats_rule == "any" else ""
        result.append(Condition(sentence=f"Each case counts once: {rule}.", short=short))
    if run.regrade_of is not None:
        result.append(Condition(sentence=f"Its answers are those of run {run.regrade_of}, graded again."))
    return tuple(result)


def word_of(standing: Standing, *, hidden_trials: int, recounted: int, imported: Standing | None) -> Word:
    """What a number is called.

    Args:
        standing: how its bundle is signed.
        hidden_trials: how many trials that it counts are hidden.
        recounted: how many scores could not be derived from the answers again.
        imported: how the bundle was signed that the run's answers came from; None where they were asked for.
    """
    if hidden_trials:
        return "claimed"
    if standing != "trusted" or imported not in (None, "trusted"):
        return "self-attested"
    return "recounted" if recounted else "verified"


def _selection_flags(selection: Selection) -> list[str]:
    """The flags by which some cases were chosen and others left out."""
    filters = (
        ("--tag", selection.tags),
        ("--exclude-tag", selection.exclude_tags),
        ("--all-tag", selection.all_tags),
        ("--category", selection.categories),
        ("--id", selection.ids),
        ("--limit", selection.limit),
    )
    return [flag for flag, value in filters if value not in ((), None)]
