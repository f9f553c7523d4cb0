"""`proctor verify`: bundles checked, and their numbers derived again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from proctor.bundles.trust_store import trusted
from proctor.cli.echo import echo_err, echo_json
from proctor.cli.options import keys_option, keys_path, show
from proctor.errors import BundleError, ExitCode, ProctorError
from proctor.model import Standing
from proctor.proof.statement import Claim, Statement
from proctor.reports.formatting import interval, percent, utc
from proctor.safe_text import one_line
from proctor.services.bundles.verify import CheckedSignature, Verified, verify
from proctor.services.bundles.verify_proof import VerifiedProof, may_be_proof, verify_proof
from proctor.services.runs.planning.judge_choice import judges_of
from proctor.verdicts import worst


@click.command("verify")
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
@click.option("--require-signature", is_flag=True, help="Exit 1 unless a key that you trust has signed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@keys_option
def command(bundles: tuple[str, ...], require_signature: bool, as_json: bool, keys: str | None) -> int:
    """Check every byte of each BUNDLE and derive its number again.

    BUNDLE is a folder or an archive that `proctor attest` wrote, or the proof of one trial. Checked are the
    list of files, all hashes, the signatures, both trees, and that every trial is there. Answers are graded
    again where a grader asks nobody; nothing in a bundle is ever run.

    Exit code 1 means that something is wrong, and the first thing that is; 4 that there is no bundle.

    \b
    proctor verify bundle.zip
    proctor verify bundle.zip --require-signature
    """  # noqa: D301  # click wants the character \b itself
    rows: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    codes = [ExitCode.OK]
    for place, path in enumerate(bundles):
        held: list[str] = []
        try:
            found = _verified(path, keys, held.append)
            rows.append({**_row(found), "checks": held})
            if not as_json:
                show([*([""] if place else []), *_lines(found)])
            if require_signature and found.standing != "trusted":
                said = _STANDINGS[found.standing]
                raise BundleError(f"{path} is {said}, and --require-signature wants a key that you trust.")
        except ProctorError as error:
            codes.append(error.exit_code)
            errors.append({"path": path, "code": _code(error), "message": str(error), "checks": held})
            echo_err(f"proctor: error: {one_line(str(error))}")
    code = worst(codes)
    if as_json:
        echo_json(json.dumps({"bundles": rows, "errors": errors, "exit_code": int(code)}, indent=2))
    return code


_LONGEST = 400
"""The most characters of a line that lists what a bundle may have any number of."""
_COUNTING = ("repeats", "min_pass_rate", "allow_errors", "judge_repeats", "judge_rule")
_USUAL = {
    "repeats_rule": "each",
    "allow_errors": 0,
    "judge_repeats": 1,
    "judge_rule": "majority",
    "split": "all",
}
"""What need not be said."""
_STANDINGS = {
    "unknown": "signed by an unknown key",
    "unsigned": "unsigned",
}


def _verified(path: str, keys: str | None, held: Callable[[str], None]) -> Verified | VerifiedProof:
    known = trusted(keys_path(keys))
    if may_be_proof(path):
        return verify_proof(path, known)
    return verify(path, known, echo_err, held)


def _code(error: ProctorError) -> str:
    return "bundle" if isinstance(error, BundleError) else "usage"


# --- for people --------------------------------------------------------------------------------------------


def _lines(found: Verified | VerifiedProof) -> Iterator[str]:
    return _lines_of_proof(found) if isinstance(found, VerifiedProof) else _lines_of_bundle(found)


def _lines_of_bundle(found: Verified) -> Iterator[str]:
    statement = found.statement
    whole = "every score, verdict and number follows from the answers"
    if found.recounted or found.hidden:
        whole = "all that could be derived again is right"
    yield from _open_question(found.standing)
    yield f"{one_line(found.path)} holds: {whole}."
    yield ""
    yield f"{'':9}{'passed':>8}{'total':>8}{'rate':>9}   95% interval"
    for split, claim in statement.claims.items():
        rate, ends = percent(claim.pass_rate), interval(claim.ci95)
        yield f"{split:9}{claim.passed:8,}{claim.total:8,}{rate:>9}   {ends}, n={claim.cases:,} cases"
    yield ""
    yield from _told(statement)
    yield f"cases      {_asked(found)}"
    if found.run.suite.split_rule is not None:
        yield f"looks      {_looks(statement)}"
    yield from _answered(found)
    yield f"derived    {found.graded_again:,} scores, by grading the answers again"
    if found.recounted:
        counts = _clipped(", ".join(f"{name} {count:,}" for name, count in found.recounted.items()))
        yield f"recounted  {sum(found.recounted.values()):,} scores as they stand: {counts}"
    for sentence in found.unverified:
        yield f"not known  {sentence}"
    yield from _signed(found.standing, found.signatures)


def _lines_of_proof(found: VerifiedProof) -> Iterator[str]:
    proved = found.proved
    trial = proved.trial.trial
    which = f"case {one_line(trial.case_id)}" + (f", repeat {trial.repeat}" if trial.repeat else "")
    yield from _open_question(found.standing)
    yield f"{one_line(found.path)} holds: this trial is in the bundle that it names."
    yield ""
    yield f"trial      {which}: {proved.trial.verdict.value}"
    yield from _told(proved.statement)
    yield from _signed(found.standing, found.signatures)


def _open_question(standing: Standing) -> Iterator[str]:
    """What a missing signature leaves open, in one line."""
    if standing != "trusted":
        yield (
            f"{_STANDINGS[standing].capitalize()}: anyone could have made all of it, so nothing shows "
            "whether this target gave these answers, or when."
        )


def _told(statement: Statement) -> Iterator[str]:
    suite, target = statement.suite, statement.target
    began, ended = (
        utc(moment.replace(microsecond=0)) for moment in (statement.started_at, statement.finished_at)
    )
    yield f"run        {one_line(statement.run)}, {began} to {ended}"
    yield f"suite      {one_line(f'{suite.name} {suite.version or str()}')}, {one_line(suite.digest)}"
    yield f"target     {one_line(target.name)}, {one_line(target.digest)}"


def _asked(found: Verified) -> str:
    """How many cases were asked, and all that decides which these are and when they pass."""
    run, asked = found.run, found.statement.claims["all"].cases
    settings, suite, rule = run.settings, run.suite, run.suite.split_rule
    rules = [] if rule is None else [f"held out {rule.ratio:g} by {rule.method}, seed {rule.seed}"]
    if asked < suite.case_count and not (run.seat.alone and run.seat.first):
        rules.append("others were for other targets of the same command")
    threshold = suite.pass_rule.threshold if settings.threshold is None else settings.threshold
    given: dict[str, Any] = {"repeats_rule": suite.repeats_rule, "threshold": threshold}
    given |= {name: getattr(settings, name) for name in _COUNTING} | asdict(settings.selection)
    rules += [
        f"{name.replace('_', ' ')} {', '.join(value) if isinstance(value, tuple) else value}"
        for name, value in given.items()
        if value not in (None, ()) and _USUAL.get(name) != value
    ]
    return _clipped("; ".join((f"{asked:,} of {suite.case_count:,} were asked", *rules)))


def _answered(found: Verified) -> Iterator[str]:
    """Whose answers and judgments were not made by the target in this run."""
    if found.taken_over:
        of = "earlier runs" if found.run.regrade_of is None else f"run {found.run.regrade_of}, graded again"
        yield f"answers    {found.taken_over:,} are those of {one_line(of)}"
    if found.run.judges:
        names = dict.fromkeys(spec.name for spec in judges_of(found.run))
        yield f"judges     {_clipped(', '.join(names))}"


def _clipped(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _looks(statement: Statement) -> str:
    looks = statement.looks
    if not looks.rate + looks.reveal:
        return "none at the suite's holdout before the run, as its maker says"
    return (
        f"{looks.rate:,} at the holdout's pass rate before the run, {looks.reveal:,} at what is sealed, "
        "as its maker says"
    )


def _signed(standing: Standing, signatures: tuple[CheckedSignature, ...]) -> Iterator[str]:
    for one in sorted(signatures, key=lambda one: one.name is not None):  # what decides stands last
        if one.name is not None:
            yield f"signature  signed by a trusted key ({one_line(one.name)}, {one.id})"
        else:
            said = "consistent, but anybody could have made this key"
            yield f"signature  signed by an unknown key ({one.id}): {said}"
    if standing == "unsigned":
        yield "signature  unsigned: consistent, but anyone could have made it"


# --- for programs ------------------------------------------------------------------------------------------


def _row(found: Verified | VerifiedProof) -> dict[str, Any]:
    if isinstance(found, VerifiedProof):
        proved = found.proved
        trial = proved.trial.trial
        own = {
            "proof_of": {
                "case_id": trial.case_id,
                "repeat": trial.repeat,
                "verdict": proved.trial.verdict.value,
            }
        }
        return {"path": found.path, **own, **_row_of(proved.statement), **_row_of_signatures(found)}
    statement = found.statement
    return {
        "path": found.path,
        "kind": statement.kind,
        "result": statement.result,
        **_row_of(statement),
        "split": statement.split,
        "suite_cases": found.run.suite.case_count,
        "settings": to_builtins(found.run.settings),
        "split_rule": to_builtins(found.run.suite.split_rule),
        "pass_rule": to_builtins(found.run.suite.pass_rule),
        "repeats_rule": found.run.suite.repeats_rule,
        "seat": to_builtins(found.run.seat),
        "judges": [spec.name for spec in judges_of(found.run)],
        "regrade_of": found.run.regrade_of,
        "taken_over": found.taken_over,
        "claims": {split: _row_of_claim(claim) for split, claim in statement.claims.items()},
        "looks": {"rate": statement.looks.rate, "reveal": statement.looks.reveal},
        "graded_again": found.graded_again,
        "recounted": found.recounted,
        "hidden": found.hidden,
        "unverified": list(found.unverified),
        **_row_of_signatures(found),
    }


def _row_of(statement: Statement) -> dict[str, Any]:
    return {
        "run": statement.run,
        "group": statement.group,
        "suite": statement.suite.name,
        "suite_version": statement.suite.version,
        "suite_digest": statement.suite.digest,
        "target": statement.target.name,
        "target_digest": statement.target.digest,
        "started_at": utc(statement.started_at),
        "finished_at": utc(statement.finished_at),
    }


def _row_of_claim(claim: Claim) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in claim.__struct_fields__}


def _row_of_signatures(found: Verified | VerifiedProof) -> dict[str, Any]:
    signatures = [{"id": one.id, "name": one.name} for one in found.signatures]
    return {"standing": found.standing, "signatures": signatures}
