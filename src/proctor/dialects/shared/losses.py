"""Losses: what a format cannot express of a suite.

Nothing is lost silently. A renderer notes each feature that its format lacks; `LossReport` makes a problem of
it and, in a lossy conversion, keeps the field in Proctor's own form in the case's metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.dialects import DIALECTS
from proctor.dialects.pramana.reader import LOSSES_FIELD as LOSSES_FIELD
from proctor.model import Assertion, Case, Problem, SplitRule, Suite, SuiteDefaults
from proctor.validation import quote_value

LOSS_CODE: Final = "unsayable"


class LossReport:
    """What a format cannot express of one case, or of a suite's header, while it is rendered."""

    __slots__ = ("_lossy", "_record", "dialect", "lost_fields", "problems")

    def __init__(self, thing: Case | Suite, dialect: str, *, lossy: bool) -> None:
        """Starts without losses.

        Args:
            thing: the case or the suite to write.
            dialect: the format's name, for messages.
            lossy: whether losses are warnings and kept in the metadata, instead of errors.
        """
        self._record = thing
        self._lossy = lossy
        self.dialect = dialect
        self.problems: list[Problem] = []
        """One for each loss."""
        self.lost_fields: dict[str, Any] = {}
        """The fields with a loss, whole, as plain data."""

    @property
    def is_refused(self) -> bool:
        """Whether the case or suite cannot be written."""
        return any(problem.level == "error" for problem in self.problems)

    def note(self, field: str, why: str) -> None:
        """Notes a feature that the format does not have.

        Args:
            field: its path, such as `assertions[1].weight`; the whole field named by the first part is kept.
            why: a full sentence about the format, such as "it has one weight for a whole case."
        """
        name = field.partition(".")[0].partition("[")[0]
        self.lost_fields[name] = decode(encode(getattr(self._record, name)), object)
        self._add_problem(field, why, "warning" if self._lossy else "error")

    def warn(self, field: str, why: str) -> None:
        """Warns about a difference that loses nothing."""
        self._add_problem(field, why, "warning")

    def note_fields(self, names: Iterable[str]) -> None:
        """Notes those of the fields that are not at their defaults, as the format does not have them."""
        blank = Case(id="", input=()) if isinstance(self._record, Case) else Suite(name="", dialect="")
        for name in names:
            if getattr(self._record, name) != getattr(blank, name):
                self.note(name, "it has no such field.")

    def note_labels(self, assertions: Iterable[Assertion], renderable: Collection[str | None] = ()) -> None:
        """Notes labels that say more than the type of their check and cannot be written."""
        for place, assertion in enumerate(assertions):
            if (
                assertion.label is not None
                and assertion.label not in renderable
                and not is_type_name(assertion)
            ):
                self.note(f"assertions[{place}].label", "its checks have no names.")

    def build_metadata(self, above: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the metadata to write: the case's own, and what was lost.

        Args:
            above: the suite's losses, for the case that keeps them.
        """
        own = self._record.metadata if isinstance(self._record, Case) else {}
        if not self._lossy:
            return own
        losses = {**self.lost_fields, **({"suite": dict(above)} if above else {})}
        if not losses:
            return own
        if LOSSES_FIELD in own and "metadata" not in losses:  # the suite was converted with losses before
            losses["earlier"] = own[LOSSES_FIELD]
        return {**own, LOSSES_FIELD: losses}

    def _add_problem(self, field: str, why: str, level: Any) -> None:
        case = self._record.id if isinstance(self._record, Case) else None
        subject = (
            f"Suite {quote_value(self._record.name)}"
            if isinstance(self._record, Suite)
            else f"Case {quote_value(case)}"
        )
        self.problems.append(
            Problem(
                level=level,
                code=LOSS_CODE,
                message=f"{subject}: the format {self.dialect} cannot express `{field}`: {why}",
                field=field,
                case=case,
            )
        )


@cache
def _all_type_names(dialects: tuple[str, ...]) -> frozenset[str]:
    """Returns the names of these dialects' assertion types, with `_` for `-`."""
    types = (word for name in dialects for word in DIALECTS.get(name).assertion_types())
    return frozenset(word.replace("-", "_") for word in types)


def is_type_name(assertion: Assertion) -> bool:
    """Whether an assertion's label is just the name of its type, as dialects set it by default."""
    label, params = assertion.label or "", assertion.params
    # Dialect agentv adds the value, as in `icontains-Oslo`, `contains-any-3` and `regex-[a-z]+`.
    values = params.get("values")
    value = str(len(values)) if isinstance(values, list) else params.get("value")
    word = "regex" if label.startswith("regex-") else label.removesuffix(f"-{value}")
    return word.replace("-", "_") in (assertion.grader, *_all_type_names(tuple(DIALECTS.names())))


def unsupported_check_message(assertion: Assertion) -> str:
    """Returns why a format cannot express an assertion."""
    with_params = (
        f" with {', '.join(f'`{name}`' for name in sorted(assertion.params))}" if assertion.params else ""
    )
    return f"it has no check like {assertion.grader!r}{with_params}."


def note_suite_losses(
    unsaid: LossReport, suite: Suite, names: Iterable[str], *, has_holdout: bool = False
) -> None:
    """Notes what a format cannot express of a suite's header.

    Args:
        unsaid: takes the losses.
        suite: the suite.
        names: fields that the format does not have.
        has_holdout: whether its header has a holdout share, by rank and with seed 42.
    """
    unsaid.note_fields(names)
    defaults = replace(suite.defaults, reuse=None, cluster=None)
    if defaults != SuiteDefaults():
        unsaid.note("defaults", "it has no settings for runs.")
    rule = suite.split_rule
    if rule is None or (has_holdout and rule == SplitRule(ratio=rule.ratio)):
        return
    if rule != SplitRule():
        unsaid.note("split_rule", "it has no rule that divides a suite into dev and holdout.")
    else:
        unsaid.warn("split_rule", "its suites have no holdout; run the suite with --holdout 0.2.")
