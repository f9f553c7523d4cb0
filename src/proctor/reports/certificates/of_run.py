"""The certificate of a run: as text, as plain data, as Markdown and as a badge. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from proctor.certification import Condition, Hindrance, Measured, Word
from proctor.model import Standing
from proctor.proof.statement import Claim, Statement
from proctor.reports.certificates.badge import Badge, escaped
from proctor.reports.certificates.of_judge import RunJudge, judge_lines, judge_row
from proctor.reports.formatting import AXIS_HEAD, drawn, interval, percent, utc
from proctor.safe_text import one_line

VERSION = 1
"""Of the fields of `data`."""
_NAME = 32
"""Letters of a suite's name on a badge."""


class Certified(Struct, frozen=True, kw_only=True):
    """A run with what its bundle was found to be."""

    statement: Statement
    measured: Measured
    word: Word
    forced: tuple[Hindrance, ...] = ()
    """What spoke against it, and was overruled."""
    standing: Standing
    signers: tuple[tuple[str, str | None], ...]
    """The fingerprint of each key that signed, with its name if it is trusted."""
    graded_again: int
    recounted: dict[str, int]
    """How many scores were counted as they stand, by grader."""
    unverified: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    judges: tuple[RunJudge, ...] = ()
    """Everybody who judged in the run."""
    looks: int | None
    """How often the holdout was looked at until now; None where no store tells."""
    imported: Standing | None
    bundle: str | None
    """Its file name; None where it was not kept."""
    envelope: str
    """The SHA-256 of its envelope, as 64 hexadecimal digits."""
    proctor: str
    """The version that checked it."""

    @property
    def claim(self) -> Claim:
        """The number that is certified."""
        return self.statement.claim


def lines(certified: Certified) -> Iterator[str]:
    """All that a terminal shows."""
    claim, part = certified.claim, certified.measured.part
    yield one_line(f"{_title(certified)} on {certified.statement.target.name}")
    yield ""
    yield f"{'':<8}  passed  total    rate  {AXIS_HEAD}"
    yield (
        f"{part:<8}  {claim.passed:>6}  {claim.total:>5}  {percent(claim.pass_rate):>6}  "
        f"{drawn(claim.pass_rate, claim.ci95)}  {interval(claim.ci95)}"
    )
    yield ""
    yield from map(one_line, _sentences(certified, _called))
    if certified.bundle is None:
        yield "The bundle was not kept. With -o FILE it is, beside the certificate, for others to check."
    else:
        yield one_line(f"Bundle {certified.bundle}, envelope SHA-256 {certified.envelope}")


def _sentences(certified: Certified, known: Callable[[str], str]) -> Iterator[str]:
    """What the number is worth, one thing a sentence; `known` tells of a trusted key by its name here."""
    statement = certified.statement
    yield f"{certified.word.capitalize()}: {_derived(certified)}."
    yield _signed(certified, known)
    if certified.imported is not None:
        yield f"Its answers were imported from a bundle that was {_WORDS[certified.imported]}."
    yield from (condition.sentence for condition in certified.conditions)
    if certified.measured.not_measured:
        share = f"{certified.measured.not_measured:,} of {certified.claim.total:,} trials"
        yield f"{share} are ERROR or UNSCORED, and count as not passed."
    for hindrance in certified.forced:
        yield f"Forced: {hindrance.sentence}"
    yield from certified.unverified
    yield from judge_lines(certified.judges)
    yield f"Run {statement.run}, {_day(statement.started_at)}.{_looks(certified)}"


_WORDS = {
    "trusted": "signed by a trusted key",
    "unknown": "signed by an unknown key",
    "unsigned": "not signed",
}


def _derived(certified: Certified) -> str:
    said = f"{certified.graded_again:,} scores were graded again from the answers"
    if certified.recounted:
        counted = ", ".join(f"{count:,} of {name}" for name, count in certified.recounted.items())
        said += f", and {counted} were counted as they stand"
    return said


def _signed(certified: Certified, known: Callable[[str], str]) -> str:
    if not certified.signers:
        return "Nobody signed it, so anyone could have made it."
    keys = (f"{key} ({'unknown' if name is None else known(name)})" for key, name in certified.signers)
    return f"Signed by {', '.join(keys)}."


def _called(name: str) -> str:
    return f"trusted, {name}"


def _unnamed(_name: str) -> str:
    """What a user calls a key tells nobody else anything."""
    return "trusted by whoever wrote this"


def _looks(certified: Certified) -> str:
    if certified.statement.split != "holdout":
        return ""
    before = certified.statement.looks
    told = f" Looks at this holdout: {before.rate + before.reveal:,} before the run"
    return f"{told}." if certified.looks is None else f"{told}, {certified.looks:,} until now."


def data(certified: Certified) -> dict[str, Any]:
    """All that is known; the names are a contract."""
    statement = certified.statement
    claims = {name: to_builtins(claim) for name, claim in statement.claims.items()}
    return {
        "proctor_certificate": VERSION,
        "of": "run",
        "word": certified.word,
        "forced": [hindrance.sentence for hindrance in certified.forced],
        "run": statement.run,
        "suite": to_builtins(statement.suite),
        "target": to_builtins(statement.target),
        "started_at": utc(statement.started_at),
        "finished_at": utc(statement.finished_at),
        "part": certified.measured.part,
        **claims[statement.split],
        "claims": claims,
        "looks": {**to_builtins(statement.looks), "until_now": certified.looks},
        "conditions": [condition.sentence for condition in certified.conditions],
        "judges": [judge_row(judge) for judge in certified.judges],
        "signature": {
            "standing": certified.standing,
            "keys": [{"id": key, "trusted": name is not None} for key, name in certified.signers],
        },
        "imported": certified.imported,
        "derived": {
            "graded_again": certified.graded_again,
            "recounted": certified.recounted,
            "hidden": certified.measured.hidden,
            "unverified": list(certified.unverified),
        },
        "bundle": {
            "name": certified.bundle,
            "kind": statement.kind,
            "envelope_sha256": certified.envelope,
            "cases_root": statement.cases.root,
            "trials_root": statement.trials.root,
        },
        "proctor": certified.proctor,
    }


def markdown(certified: Certified, badge: str | None, bundle: str | None) -> Iterator[str]:
    """What fits a README.

    Args:
        certified: the run with what was found.
        badge: the Markdown of its badge, if there is one.
        bundle: where its bundle is, as seen from the Markdown.
    """
    statement, claim = certified.statement, certified.claim
    yield f"# {escaped(_title(certified))} on {escaped(statement.target.name)}\n\n"
    if badge is not None:
        yield f"{badge}\n\n"
    part = "" if certified.measured.part == "all" else f" {certified.measured.part}"
    yield (
        f"**{claim.passed:,} of {claim.total:,}{part} trials passed**: {percent(claim.pass_rate)}, 95 % "
        f"interval {interval(claim.ci95)} over {claim.cases:,} cases; {claim.failed:,} failed, "
        f"{claim.errors:,} errors, {claim.unscored:,} unscored.\n\n"
    )
    for sentence in _sentences(certified, _unnamed):
        yield f"- {escaped(sentence)}\n"
    yield (
        f"\n| | |\n|---|---|\n| suite | `{statement.suite.digest}` |\n"
        f"| target | `{statement.target.digest}` |\n| envelope | `sha256:{certified.envelope}` |\n"
    )
    if bundle is not None:
        yield f"\nCheck it: `proctor verify {_code(shlex.quote(bundle))}`\n"


def badge_of(certified: Certified, link: str | None) -> Badge:
    """The badge: the rate, what it is worth, how many cases it is of, and its interval."""
    message = message_of(certified)
    rate = certified.claim.pass_rate
    grey = why_grey(certified.word, rate, forced=bool(certified.forced))
    title = f"{message} · {_title(certified)} on {certified.statement.target.name}"
    return Badge(
        label=_label(certified),
        message=message,
        rate=None if grey else rate,
        grey=grey,
        title=f"{title} · {_day(certified.statement.started_at)}",
        link=link,
    )


def why_grey(word: str, rate: float | None, *, forced: bool) -> str:
    """Why a badge has no colour, as a sentence; empty where it has the colour of its rate."""
    if forced:
        return "Grey: the certificate was forced."
    if rate is None:
        return "Grey: nothing was measured."
    if word in ("verified", "recounted"):
        return ""
    return f"Grey: the number is {word}, and nobody who is trusted here vouches for it."


def message_of(certified: Certified) -> str:
    """What a badge says on its right, as in `77.5 % verified · n=40 · 62–88 %`."""
    claim = certified.claim
    rate = percent(claim.pass_rate).replace("%", " %")
    parts = [f"{rate} {certified.word}", f"n={claim.cases}", interval(claim.ci95).replace("%", " %")]
    parts += [condition.short for condition in certified.conditions if condition.short]
    if certified.forced:
        parts.append(f"forced: {', '.join(one.short for one in certified.forced)}")
    return " · ".join(parts)


def _label(certified: Certified) -> str:
    part, name = certified.measured.part, one_line(certified.statement.suite.name)
    name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"  # so that a badge has room for the part
    return name if part == "all" else f"{name} {part}"


def _title(certified: Certified) -> str:
    suite = certified.statement.suite
    return suite.name if suite.version is None else f"{suite.name} {suite.version}"


def _code(text: str) -> str:
    """Text inside a code span, which a backtick would end."""
    return one_line(text).replace("`", "'")


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
