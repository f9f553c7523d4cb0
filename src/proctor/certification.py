"""Decides whether a run gets a certificate, and what the certificate says. Pure.

The numbers come from a verified bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import ceil
from typing import Literal

from msgspec import Struct

from proctor.errors import ExitCode, ProctorError
from proctor.model import Run, Selection, SignatureStatus
from proctor.plurals import describe_repeats_rule, pluralize
from proctor.verdicts import threshold_for

MIN_CASES = 20
"""With 20 cases the 95 % interval is up to 40 points wide, with 10 cases up to 53."""

TrustLevel = Literal["verified", "recounted", "self-attested", "claimed"]
"""How far a number can be trusted: the first of these that applies.

`verified`: every score was computed again from the answers, and a trusted key signed it. `recounted`: some
scores are those of judges or programs and were counted as stored. `self-attested`: no trusted key signed it,
or the bundle that its answers come from. `claimed`: the trials that it counts are hidden.
"""


class CertificationTerms(Struct, frozen=True, kw_only=True):
    """The requirements of a certificate."""

    min_cases: int = MIN_CASES
    allow_errors: int = 0
    """The maximum number of trials that are ERROR or UNSCORED."""


class HeadlineScope(Struct, frozen=True, kw_only=True):
    """The cases and trials that the headline number of a run is about."""

    part: Literal["all", "dev", "holdout"]
    """Which cases: `dev` for a run of a split suite without its held-out cases."""
    cases: int
    not_measured: int
    """The number of ERROR and UNSCORED trials among these cases."""
    hidden_trials: int
    """The number of trials that the bundle hides."""
    selection: Selection = Selection()
    suite_cases: int = 0
    """The number of cases of the suite."""
    share: float | None = None
    """The share of held-out cases; None without a holdout."""


class Objection(Struct, frozen=True, kw_only=True):
    """A reason why a run gets no certificate unless it is forced."""

    sentence: str
    remedy: str = ""
    """What to do, if the sentence does not say it; not printed on certificates."""
    short: str
    """The text for a badge."""
    exit_code: ExitCode = ExitCode.FAILED


class Condition(Struct, frozen=True, kw_only=True):
    """A condition under which the number of a run was counted."""

    sentence: str
    short: str = ""
    """The text for a badge, if the condition changes the number."""


class NotCertified(ProctorError):
    """Raised for a run that gets no certificate; the text has every reason."""

    force_hint = "With --force, it is certified anyway, and the certificate says so."
    """The end of the text, about forcing a certificate."""

    def __init__(self, hindrances: Sequence[Objection]) -> None:
        reasons = " ".join(
            part for objection in hindrances for part in (objection.sentence, objection.remedy) if part
        )
        super().__init__(f"Not certified. {reasons} {self.force_hint}")
        self.exit_code = max(objection.exit_code for objection in hindrances)


def headline_scope(
    run: Run, *, split: Literal["holdout", "all"], cases: int, not_measured: int, hidden_trials: int
) -> HeadlineScope:
    """Returns the scope of a run's headline number.

    Args:
        run: the run.
        split: the claim that is the headline.
        cases: how many cases it counts.
        not_measured: how many of their trials are ERROR or UNSCORED.
        hidden_trials: how many held-out trials the bundle hides.
    """
    dev_alone = split == "all" and run.settings.selection.split == "dev" and run.suite.split_rule is not None
    return HeadlineScope(
        part="dev" if dev_alone else split,
        cases=cases,
        not_measured=not_measured,
        hidden_trials=hidden_trials if split == "holdout" else 0,
        selection=run.settings.selection,
        suite_cases=run.suite.case_count,
        share=None if run.suite.split_rule is None else run.suite.split_rule.ratio,
    )


def find_objections(of: HeadlineScope, terms: CertificationTerms) -> tuple[Objection, ...]:
    """Returns all objections to a certificate."""
    return (*_size_objections(of, terms), *_selection_objections(of), *_hidden_objections(of))


def _size_objections(of: HeadlineScope, terms: CertificationTerms) -> Iterator[Objection]:
    if of.not_measured > terms.allow_errors:
        yield Objection(
            sentence=f"{pluralize(of.not_measured, 'trial')} could not be measured (ERROR or UNSCORED), "
            f"and at most {terms.allow_errors:,} may be: --allow-errors.",
            short=pluralize(of.not_measured, "error"),
            exit_code=ExitCode.NOT_MEASURED,
        )
    if of.cases < terms.min_cases:
        noun = "case" if of.part == "all" else f"{of.part} case"
        yield Objection(
            sentence=f"{pluralize(of.cases, noun)} {'is' if of.cases == 1 else 'are'} not enough; at least "
            f"{terms.min_cases:,} are needed.",
            remedy=_remedy(of, terms.min_cases),
            short=pluralize(of.cases, "case"),
        )


def _remedy(of: HeadlineScope, minimum: int) -> str:
    """Returns how a run gets that many cases; for a holdout also how large its suite must be."""
    takes, larger = "", ""
    if of.part == "holdout" and of.share is not None:
        whole = pluralize(ceil(minimum / Decimal(str(of.share))), "case")
        takes = f"With {of.share * 100:g} % held out that is a suite of {whole}. "
        per_cent = ceil(Decimal(100 * minimum) / of.suite_cases) if of.suite_cases else 100
        if per_cent < 100:
            larger = f" hold out {per_cent} % of these {of.suite_cases:,} (--holdout {per_cent / 100:g}),"
    return f"{takes}Write more cases,{larger} or lower the minimum (--min-cases)."


def _selection_objections(of: HeadlineScope) -> Iterator[Objection]:
    if of.part == "dev":
        yield Objection(
            sentence="The run has only the dev cases, which prompts are tuned on. Run the holdout.",
            short="dev cases alone",
        )
    flags = ", ".join(_selection_flags(of.selection))
    if flags:
        yield Objection(
            sentence=f"The run has only the cases that {flags} selected. Run all of them.",
            short="picked cases",
        )


def _hidden_objections(of: HeadlineScope) -> Iterator[Objection]:
    if of.hidden_trials:
        yield Objection(
            sentence="The held-out trials are hidden in this bundle, so their number cannot be derived "
            "again. Certify the full bundle.",
            short="not derived again",
        )


def find_conditions(run: Run) -> tuple[Condition, ...]:
    """Returns the conditions under which the number of a run was counted, if they are unusual."""
    result = []
    if run.suite.split_rule is None:
        result.append(
            Condition(
                sentence="There is no holdout: this is the pass rate of all cases, and the prompts may be "
                "overfitted to them.",
                short="no holdout",
            )
        )
    if run.settings.threshold is not None:
        bar = f"{run.settings.threshold:g}"
        result.append(
            Condition(
                sentence=f"A case passes with a score of {bar} or more, because the run used --threshold "
                f"{bar}.",
                short=f"threshold {bar}",
            )
        )
    rule = describe_repeats_rule(run.suite.repeats_rule, threshold_for(run))
    if rule is not None:
        short = "any repeat" if run.suite.repeats_rule == "any" else ""
        result.append(Condition(sentence=f"Each case counts once: {rule}.", short=short))
    if run.regrade_of is not None:
        result.append(Condition(sentence=f"It is a regrade of the answers of run {run.regrade_of}."))
    return tuple(result)


def trust_level(
    standing: SignatureStatus, *, hidden_trials: int, recounted: int, imported: SignatureStatus | None
) -> TrustLevel:
    """Returns the trust level of a number.

    Args:
        standing: the signature status of its bundle.
        hidden_trials: how many of the counted trials are hidden.
        recounted: how many scores could not be computed again from the answers.
        imported: the signature status of the bundle with the run's answers; None if they are not imported.
    """
    if hidden_trials:
        return "claimed"
    if standing != "trusted" or imported not in (None, "trusted"):
        return "self-attested"
    return "recounted" if recounted else "verified"


def _selection_flags(selection: Selection) -> list[str]:
    """Returns the flags that selected some of the cases."""
    filters = (
        ("--tag", selection.tags),
        ("--exclude-tag", selection.exclude_tags),
        ("--all-tag", selection.all_tags),
        ("--category", selection.categories),
        ("--id", selection.ids),
        ("--limit", selection.limit),
        ("--shard", selection.shard),
    )
    return [flag for flag, value in filters if value not in ((), None)]
