"""Checks that the envelope, the statement, the run and the claims of a bundle are consistent.

The first inconsistency raises a `BundleDefect`, whose text has the expected value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from proctor.codec import target_digest, template_digest, to_record
from proctor.errors import ExitCode, UsageError
from proctor.model import Run, Settings, Suite
from proctor.proof.canonical import canonical_json, parse_canonical
from proctor.proof.claims import ClaimCounter
from proctor.proof.dsse import Envelope, parse_envelope
from proctor.proof.statement import (
    CONFIG,
    ENVELOPE,
    ENVIRONMENT,
    Claim,
    HasFileModel,
    Statement,
    config_data,
    environment_data,
    make_claim,
    make_claim_v1,
    parse_statement,
)
from proctor.run_gate import is_measured, run_exit_code
from proctor.verdicts import NO_TRIALS, Counts, parse_shape

T = TypeVar("T")
_SHAPE = re.compile(r"(0|[1-9][0-9]{0,9})(/(0|[1-9][0-9]{0,9})){2}", re.ASCII)


class BundleDefect(Exception):
    """The first thing that is wrong with a bundle, as a sentence with the file and the line in front."""


def read_or_fail(place: str, reading: Callable[[], T]) -> T:
    """Reads a part of a bundle.

    Args:
        place: the file, or a line of it such as `trials.jsonl:3`.
        reading: reads it; messages of its exceptions are clauses.

    Raises:
        BundleDefect: it cannot be read.
    """
    try:
        return reading()
    except (ValueError, UsageError, RecursionError, OverflowError, ArithmeticError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        reason = "".join(letter if letter.isprintable() else "?" for letter in reason[:300])
        raise BundleDefect(f"{place} is not valid: {reason}.") from None


def require_equal(place: str, what: str, claimed: Any, right: Any) -> None:
    """Checks that two values are equal.

    Raises:
        BundleDefect: they differ.
    """
    if claimed != right:
        raise BundleDefect(
            f"{place}: {what} is {format_value(claimed)}, but should be {format_value(right)}."
        )


def format_value(value: Any) -> str:
    """Returns a value as one short line that is safe for terminals."""
    is_plain = isinstance(value, str) and value.isascii() and value.isprintable()
    text: str = value if is_plain else ascii(value)
    return text if len(text) <= 160 else f"{text[:150]}…"


_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, but for tabs and line ends, and those that turn the direction of text around."""


def check_name(place: str, what: str, name: str) -> None:
    """Checks that a name has no control characters, with which it could be displayed as another one.

    Raises:
        BundleDefect: it has control characters.
    """
    if _CONTROL_CHARACTERS.search(name):
        raise BundleDefect(f"{place}: {what} has control characters: {format_value(name)}.")


# --- envelope and statement --------------------------------------------------------------------------------


def read_envelope(data: bytes) -> Envelope:
    """Reads envelope.json.

    Raises:
        BundleDefect: it is no envelope, or not canonical.
    """
    return read_or_fail(ENVELOPE, lambda: parse_envelope(parse_canonical(_single_line(data))))


def read_statement(envelope: Envelope) -> Statement:
    """Reads the statement in an envelope.

    Raises:
        BundleDefect: there is none, or it is not canonical.
    """
    return read_or_fail(
        f"{ENVELOPE}: the statement", lambda: parse_statement(parse_canonical(envelope.payload))
    )


def read_run(config: bytes, environment: bytes, suite: Suite, has_file_model: HasFileModel) -> Run:
    """Builds the run from config.json, environment.json and the suite's header.

    Raises:
        BundleDefect: they are no run, or not canonical.
    """
    parts = read_or_fail(CONFIG, lambda: _parse_object(config))
    around = read_or_fail(ENVIRONMENT, lambda: _parse_object(environment))
    require_equal(ENVIRONMENT, "the list of fields", sorted(around), ["prices_date", "versions"])
    whole = {**parts, **around, "suite": suite}
    run = read_or_fail(CONFIG, lambda: to_record(whole, Run))
    make_config = partial(config_data, has_file_model=has_file_model)
    for place, data, make in ((CONFIG, config, make_config), (ENVIRONMENT, environment, environment_data)):
        rebuilt = read_or_fail(place, partial(_render_file, make, run))
        if rebuilt != data:
            raise BundleDefect(f"{place} has a field that is unknown, misplaced or not in canonical form.")
    return run


def _render_file(make: Callable[[Run], dict[str, Any]], run: Run) -> bytes:
    return canonical_json(make(run)) + b"\n"


def check_statement(statement: Statement, run: Run) -> None:
    """Checks the statement against the run.

    Raises:
        BundleDefect: they are of two different runs.
    """
    suite, target, prompt = statement.suite, statement.target, statement.prompt
    require_equal(ENVELOPE, "the run's id", statement.run, run.id)
    require_equal(ENVELOPE, "the run's group", statement.group, run.group)
    require_equal(ENVELOPE, "the suite's name", suite.name, run.suite.name)
    require_equal(ENVELOPE, "the suite's version", suite.version, run.suite.version)
    require_equal(ENVELOPE, "the suite's digest", suite.digest, run.suite.digest)
    require_equal(ENVELOPE, "the target's name", target.name, run.target.name)
    require_equal(ENVELOPE, "the target's digest", target.digest, target_digest(run.target))
    require_equal(ENVELOPE, "the prompt's name", prompt and prompt.name, run.prompt_name)
    own_digest = None if run.prompt is None else template_digest(run.prompt)
    require_equal(ENVELOPE, "the prompt's digest", prompt and prompt.digest, own_digest)
    require_equal(CONFIG, "the run's status", run.status, "finished")
    require_equal(CONFIG, "why the run was stopped", run.stopped, None)
    require_equal(CONFIG, "why the run stopped early", run.early_stop, None)
    require_equal(ENVELOPE, "the time at which the run began", statement.started_at, run.started_at)
    require_equal(ENVELOPE, "the time at which the run ended", statement.finished_at, run.finished_at)
    require_equal(
        ENVELOPE, "the split", statement.split, "holdout" if "holdout" in statement.claims else "all"
    )
    require_equal(ENVELOPE, "the number of trials", statement.trials.size, run.planned)
    require_equal(ENVELOPE, "the number of cases", statement.cases.size, run.suite.case_count)
    if run.finished_at is None or run.finished_at < run.started_at:
        raise BundleDefect(
            f"{CONFIG}: the run ended at {run.finished_at}, before it began at {run.started_at}."
        )
    names = [run.id, run.group, suite.name, suite.version or "", target.name]
    names += filter(None, (run.embedder, run.prompt_name))
    specs = (*run.judges, *run.named_targets, *run.named_judges)
    for name in (*names, *(spec.name for spec in specs)):
        check_name(CONFIG, "a name", name)
    if min(statement.looks.rate, statement.looks.reveal) < 0:
        raise BundleDefect(f"{ENVELOPE}: the number of holdout accesses is below 0.")


def _parse_object(data: bytes) -> dict[str, Any]:
    read = parse_canonical(_single_line(data))
    if not isinstance(read, dict) or "suite" in read:
        raise ValueError("it is not a JSON object, or it names a suite")
    return read


def _single_line(data: bytes) -> bytes:
    if not data.endswith(b"\n"):
        raise ValueError("it does not end with a newline")
    return data[:-1]


# --- claims ------------------------------------------------------------------------------------------------


def check_claims(
    statement: Statement, run: Run, counting: ClaimCounter, hidden_trials: int, hidden_cases: int
) -> None:
    """Checks the claims against the counted trials.

    Hidden trials are part of the claims on all trials and on the holdout, which must agree with what can be
    counted. If a cluster can have hidden cases, a result by its interval is the maker's word.

    Args:
        statement: has the claims.
        run: the run.
        counting: the counts of every trial that is not hidden.
        hidden_trials: the number of hidden trials.
        hidden_cases: the number of hidden cases; not all of them need to have trials.

    Raises:
        BundleDefect: the claims differ from the counts.
    """
    expected = counting.claims(statement.version, fixed_size=_is_fixed_size(statement))
    if hidden_trials:
        expected = _add_hidden(statement, run, counting, hidden_trials, hidden_cases)
    require_equal(ENVELOPE, "the list of claims", sorted(statement.claims), sorted(expected))
    for split, right in expected.items():
        claimed = statement.claims[split]
        for field in Claim.__struct_fields__:
            what = f"`{field}` of the claim on {split}"
            require_equal(ENVELOPE, what, getattr(claimed, field), getattr(right, field))
    settings, claim = run.settings, statement.claims["all"]
    whole = None if hidden_trials or statement.version == 1 else counting.counts["all"]
    if whole is not None or settings.cluster is None or settings.gate_mode == "point":
        result = _result(claim, _counts(claim) if whole is None else whole, settings)
        require_equal(ENVELOPE, "the result", statement.result, result)
    public = statement.kind == "public"
    for list_name, listed, names in (
        ("passedTests", statement.passed_tests, partial(counting.passed_names, public=public)),
        ("failedTests", statement.failed_tests, partial(counting.failed_names, public=public)),
    ):
        if any(name != derived for name, derived in zip_longest(listed, names())):
            raise _names_defect(list_name, listed, tuple(names()))


def _result(claim: Claim, counts: Counts, settings: Settings) -> Literal["PASSED", "FAILED"]:
    if claim.shapes is not None:
        code = run_exit_code(counts, settings)
    elif settings.min_pass_rate is None or not is_measured(counts, settings):
        code = run_exit_code(counts, replace(settings, min_pass_rate=None))
    else:  # version 1 has a gate on the share of all trials
        is_held = (claim.pass_rate or 0.0) >= settings.min_pass_rate - 1e-12
        code = ExitCode.OK if is_held else ExitCode.FAILED
    return "FAILED" if code else "PASSED"


def _add_hidden(
    statement: Statement, run: Run, counting: ClaimCounter, hidden_trials: int, hidden_cases: int
) -> dict[str, Claim]:
    """Returns the expected claims if the claim on the holdout, which cannot be checked, is right."""
    holdout = statement.claims.get("holdout")
    if holdout is None:
        raise BundleDefect(
            f"{ENVELOPE}: {hidden_trials} trials are hidden, but there is no claim on the holdout."
        )
    parts = (holdout.passed, holdout.failed, holdout.errors, holdout.unscored)
    cases = holdout.cases if holdout.shapes is None else sum(holdout.shapes.values())
    if min(parts) < 0 or not 0 < cases <= min(sum(parts), hidden_cases) or sum(parts) > hidden_trials:
        raise BundleDefect(
            f"{ENVELOPE}: the claim on the holdout has numbers that are impossible for {hidden_trials} "
            f"trials of {hidden_cases} cases."
        )
    if run.suite.repeats_rule == "each":
        require_equal(ENVELOPE, "`total` of the claim on holdout", sum(parts), hidden_trials)
    is_fixed = _is_fixed_size(statement)
    expected = counting.claims(statement.version, fixed_size=is_fixed)
    hidden, visible = _counts(holdout), counting.counts["all"]
    hidden.best_count = visible.best_count
    whole = hidden.plus(visible)
    if statement.version == 1:
        cases = holdout.cases + expected["all"].cases
        claims = make_claim_v1(hidden, holdout.cases), make_claim_v1(whole, cases)
    else:
        claims = make_claim(hidden), make_claim(whole)
    if run.settings.cluster is not None:  # a cluster can have hidden cases: its interval is the maker's word
        claims = (
            replace(claims[0], ci95=holdout.ci95),
            replace(claims[1], ci95=statement.claims["all"].ci95),
        )
    return {**expected, "holdout": claims[0], "all": claims[1]}


def _is_fixed_size(statement: Statement) -> bool:
    """Returns whether the intervals are those of a run of fixed size, also for a run that may stop early."""
    return all(claim.interval_kind is None for claim in statement.claims.values())


def _counts(claim: Claim) -> Counts:
    """Returns the counts of a claim.

    Raises:
        BundleDefect: its cases do not have its trials.
    """
    counts = Counts(claim.passed, claim.failed, claim.errors, claim.unscored)
    if claim.shapes is None:
        return counts
    shapes = []
    for key, cases in claim.shapes.items():
        if _SHAPE.fullmatch(key) is None or key == NO_TRIALS or cases < 1:
            raise BundleDefect(
                f"{ENVELOPE}: a claim has {cases} cases of {key!r} trials, which is impossible."
            )
        shapes.append((parse_shape(key), cases))
    trials = [
        sum(cases * shape.passed for shape, cases in shapes),
        sum(cases * (shape.measured - shape.passed) for shape, cases in shapes),
        sum(cases * shape.unmeasured for shape, cases in shapes),
    ]
    if any(shape.passed > shape.measured for shape, _ in shapes) or trials != [
        counts.passed,
        counts.failed,
        counts.unmeasured,
    ]:
        raise BundleDefect(f"{ENVELOPE}: the `shapes` of a claim do not have the trials of the claim.")
    counts.shapes = dict(claim.shapes)
    return counts


def _names_defect(field: str, claimed: tuple[str, ...], right: tuple[str, ...]) -> BundleDefect:
    """Returns the defect of names that differ from those that the trials give."""
    expected, claimed_set = set(right), set(claimed)
    for what, more in (
        ("has", next((name for name in claimed if name not in expected), None)),
        ("lacks", next((name for name in right if name not in claimed_set), None)),
    ):
        if more is not None:
            return BundleDefect(
                f"{ENVELOPE}: `{field}` {what} {format_value(more)}, which contradicts the trials."
            )
    return BundleDefect(f"{ENVELOPE}: `{field}` is not in the order of the suite, or has a name twice.")
