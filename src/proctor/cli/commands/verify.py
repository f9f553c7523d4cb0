"""`proctor verify`: checks bundles, and derives their numbers again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from proctor.bundles.keys import check_fingerprint
from proctor.bundles.trust_store import load_trusted_keys
from proctor.cli.echo import echo_err, echo_json
from proctor.cli.options import keys_option, keys_path, show
from proctor.errors import BundleError, ExitCode, ProctorError
from proctor.model import SignatureStatus
from proctor.plurals import pluralize
from proctor.proof.statement import Statement
from proctor.reports.clusters import clusters_sentence
from proctor.reports.formatting import format_utc, interval, percent, unmeasured
from proctor.run_gate import worst_exit_code
from proctor.safe_text import one_line
from proctor.services.bundles.verify import VerifiedBundle, verify
from proctor.services.bundles.verify_proof import VerifiedProof, may_be_proof, verify_proof
from proctor.services.runs.planning.judge_choice import all_judges


@click.command("verify")
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
@click.option("--require-signature", is_flag=True, help="Exit 1 unless a key that you trust has signed.")
@click.option(
    "--signed-by",
    metavar="FINGERPRINT",
    help="Exit 1 unless the key with this fingerprint has signed, whether you trust it or not.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@keys_option
def command(
    bundles: tuple[str, ...],
    require_signature: bool,
    signed_by: str | None,
    as_json: bool,
    keys: str | None,
) -> int:
    """Verify each BUNDLE and recompute its pass rate.

    BUNDLE is a folder or an archive that `proctor attest` wrote, or the proof of one trial. The command
    checks the list of files, all hashes, the signatures and both hash trees, and that no trial is missing. It
    grades the answers again if the grader calls no model. It never runs anything from a bundle.

    Exit codes: 0 valid, 1 invalid (the first defect is printed), 4 no bundle found, or the extra `sign` is
    missing for a signed one.

    \b
    proctor verify bundle.zip
    proctor verify bundle.zip --require-signature
    proctor verify bundle.zip --signed-by d1f84e298c5dc5f03a934390d9d2480bba21c3a6c6e5f70b1632a58084fcedc9
    """  # noqa: D301  # click wants the character \b itself
    if signed_by is not None:
        signed_by = check_fingerprint(signed_by)
    demand = SignatureDemand(require_signature, signed_by)
    rows: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    codes = [ExitCode.OK]
    for index, path in enumerate(bundles):
        passed_checks: list[str] = []
        try:
            verification = _verify(path, keys, passed_checks.append)
            rows.append({**_row(verification), "checks": passed_checks})
            if not as_json:
                lines = (
                    _proof_lines(verification, demand)
                    if isinstance(verification, VerifiedProof)
                    else _bundle_lines(verification, demand)
                )
                show([*([""] if index else []), *lines])
            if (defect := demand.find_defect(verification)) is not None:
                raise BundleError(f"{path} is {defect[0]}, but {defect[1]}.")
        except ProctorError as error:
            codes.append(error.exit_code)
            code_name = "bundle" if isinstance(error, BundleError) else "usage"
            errors.append({"path": path, "code": code_name, "message": str(error), "checks": passed_checks})
            echo_err(f"proctor: error: {one_line(str(error))}")
    code = worst_exit_code(codes)
    if as_json:
        echo_json(json.dumps({"bundles": rows, "errors": errors, "exit_code": int(code)}, indent=2))
    return code


_MAX_LINE_LENGTH = 400
"""Maximum length of a line that lists parts of a bundle."""
_RELEVANT_SETTINGS = (
    *("repeats", "min_pass_rate", "gate_mode", "allow_errors", "cluster", "judge_repeats"),
    "judge_rule",
)
_DEFAULT_SETTINGS = {
    "repeats_rule": "each",
    "allow_errors": 0,
    "gate_mode": "point",
    "judge_repeats": 1,
    "judge_rule": "majority",
    "split": "all",
}
"""Default values, which are not printed."""
_SIGNATURE_TEXTS = {
    "unknown": "signed by an unknown key",
    "unsigned": "unsigned",
}


class SignatureDemand(NamedTuple):
    """Which signature the user demands."""

    needs_trust: bool
    """Whether a key that the user trusts must have signed."""
    key: str | None
    """The fingerprint of the key that must have signed."""

    def find_defect(self, verification: VerifiedBundle | VerifiedProof) -> tuple[str, str] | None:
        """Returns how a file is signed and what the user demands instead; None if it is signed so."""
        if self.needs_trust and verification.standing != "trusted":
            status = _SIGNATURE_TEXTS[verification.standing]
            return status, "--require-signature needs a signature by a key that you trust"
        if self.key is not None and not self.names_signer(verification):
            status = "signed by another key" if verification.signatures else _SIGNATURE_TEXTS["unsigned"]
            return status, f"--signed-by needs a signature by the key {self.key}"
        return None

    def names_signer(self, verification: VerifiedBundle | VerifiedProof) -> bool:
        """Whether the key that the user names has signed."""
        return self.key in {signature.id for signature in verification.signatures}


def _verify(path: str, keys: str | None, on_check: Callable[[str], None]) -> VerifiedBundle | VerifiedProof:
    trusted_keys = load_trusted_keys(keys_path(keys))
    if may_be_proof(path):
        return verify_proof(path, trusted_keys)
    return verify(path, trusted_keys, echo_err, on_check)


# --- text --------------------------------------------------------------------------------------------------


def _bundle_lines(verification: VerifiedBundle, demand: SignatureDemand) -> Iterator[str]:
    statement = verification.statement
    summary = "all scores, verdicts and numbers follow from the answers"
    if verification.recounted or verification.hidden:
        summary = "everything that could be derived again is correct"
    yield from _verdict_lines(verification, summary, demand)
    yield ""
    yield f"{'':9}{'passed':>8}{'total':>8}{'rate':>9}   95% interval"
    for split, claim in statement.claims.items():
        rate, ends = percent(claim.pass_rate), interval(claim.ci95)
        line = f"{split:9}{claim.passed:8,}{claim.total:8,}{rate:>9}   {ends}, n={claim.cases:,} cases"
        rest = unmeasured(claim.unmeasured, claim.bounds)
        yield f"{line}, not measured {rest}" if rest else line
    field, count = verification.run.settings.cluster, verification.cluster_counts.get("all")
    if field is not None and count is not None and not verification.hidden:
        yield clusters_sentence("Intervals are", count, field)
    claim = statement.claims["all"]
    if statement.version == 1 and (claim.unmeasured or claim.cases < claim.total):
        yield (
            "These rates follow version 1 of the bundle format: they are over trials, and ERROR and "
            "UNSCORED count as failed."
        )
    yield ""
    yield from _describe_run(statement)
    yield f"cases      {_describe_cases(verification)}"
    if verification.run.merged_from:
        yield f"merged     from {pluralize(len(verification.run.merged_from), 'run')}"
    if verification.run.suite.split_rule is not None:
        yield f"accesses   {_describe_accesses(statement)}"
    yield from _describe_sources(verification)
    yield f"derived    {verification.graded_again:,} scores, by grading the answers again"
    if verification.recounted:
        counts = _clip(", ".join(f"{name} {count:,}" for name, count in verification.recounted.items()))
        yield f"recounted  {sum(verification.recounted.values()):,} scores, taken as recorded: {counts}"
    for sentence in verification.unverified:
        yield f"unverified {sentence}"
    yield from _describe_signatures(verification, demand.key)


def _proof_lines(verification: VerifiedProof, demand: SignatureDemand) -> Iterator[str]:
    proved = verification.proved
    trial = proved.trial.trial
    trial_name = f"case {one_line(trial.case_id)}" + (f", repeat {trial.repeat}" if trial.repeat else "")
    yield from _verdict_lines(verification, "this trial is in the bundle that it names", demand)
    yield ""
    yield f"trial      {trial_name}: {proved.trial.verdict.value}"
    yield from _describe_run(proved.statement)
    yield from _describe_signatures(verification, demand.key)


def _verdict_lines(
    verification: VerifiedBundle | VerifiedProof, summary: str, demand: SignatureDemand
) -> Iterator[str]:
    """Yields the first lines: whether the file is valid, and what a missing trusted signature leaves open."""
    name = one_line(verification.path)
    if (defect := demand.find_defect(verification)) is not None:
        doubt = ", so anyone could have made it" if verification.standing != "trusted" else ""
        yield f"{name} is not accepted: it is {defect[0]}{doubt}."
        yield f"Only its content is consistent: {summary}."
        return
    if not demand.names_signer(verification):
        yield from _signature_caveat(verification.standing)
    yield f"{name} is valid: {summary}."


def _signature_caveat(status: SignatureStatus) -> Iterator[str]:
    """Yields a line on what a missing trusted signature leaves open."""
    if status != "trusted":
        yield (
            f"{_SIGNATURE_TEXTS[status].capitalize()}: anyone could have made this file, so it does "
            "not prove that this target gave these answers, or when. Exit code 0 means only that "
            "it is consistent. With --require-signature, it also means that a key that you trust has signed."
        )


def _describe_run(statement: Statement) -> Iterator[str]:
    suite, target = statement.suite, statement.target
    start, end = (
        format_utc(moment.replace(microsecond=0)) for moment in (statement.started_at, statement.finished_at)
    )
    yield f"run        {one_line(statement.run)}, {start} to {end}"
    yield f"suite      {one_line(f'{suite.name} {suite.version or str()}')}, {one_line(suite.digest)}"
    yield f"target     {one_line(target.name)}, {one_line(target.digest)}"
    if statement.prompt is not None:
        yield f"prompt     {one_line(statement.prompt.name)}, {one_line(statement.prompt.digest)}"


def _describe_cases(verification: VerifiedBundle) -> str:
    """Returns how many cases were run, with the settings that select them and decide when they pass."""
    run, case_count = verification.run, verification.statement.claims["all"].cases
    settings, suite, rule = run.settings, run.suite, run.suite.split_rule
    rules = [] if rule is None else [f"held out {rule.ratio:g} by {rule.method}, seed {rule.seed}"]
    if case_count < suite.case_count and not (run.seat.alone and run.seat.first):
        rules.append("the others were for other targets of the same command")
    threshold = suite.pass_rule.threshold if settings.threshold is None else settings.threshold
    values: dict[str, Any] = {"repeats_rule": suite.repeats_rule, "threshold": threshold}
    values |= {name: getattr(settings, name) for name in _RELEVANT_SETTINGS} | asdict(settings.selection)
    rules += [
        f"{name.replace('_', ' ')} {', '.join(value) if isinstance(value, tuple) else value}"
        for name, value in values.items()
        if value not in (None, ()) and _DEFAULT_SETTINGS.get(name) != value
    ]
    return _clip("; ".join((f"{case_count:,} of {suite.case_count:,} were run", *rules)))


def _describe_sources(verification: VerifiedBundle) -> Iterator[str]:
    """Yields the sources of reused answers, and the judges."""
    if verification.reused_trials:
        origin = (
            "earlier runs"
            if verification.run.regrade_of is None
            else f"run {verification.run.regrade_of}, graded again"
        )
        yield f"answers    {verification.reused_trials:,} reused from {one_line(origin)}"
    if verification.run.judges:
        names = dict.fromkeys(spec.name for spec in all_judges(verification.run))
        yield f"judges     {_clip(', '.join(names))}"


def _clip(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 1]}…"


def _describe_accesses(statement: Statement) -> str:
    looks = statement.looks
    if not looks.rate + looks.reveal:
        return "none to the suite's holdout before the run, according to its author"
    return (
        f"{looks.rate:,} to the holdout's pass rate before the run, {looks.reveal:,} to hidden cases, "
        "according to its author"
    )


def _describe_signatures(verification: VerifiedBundle | VerifiedProof, key: str | None) -> Iterator[str]:
    trusted_last = sorted(
        verification.signatures, key=lambda signature: (signature.name is not None, signature.id == key)
    )
    for signature in trusted_last:
        if signature.name is not None:
            yield f"signature  signed by a trusted key ({one_line(signature.name)}, {signature.id})"
        elif signature.id == key:
            yield f"signature  signed by the key that --signed-by names ({signature.id})"
        else:
            warning = "consistent, but anyone could have made this key"
            yield f"signature  signed by an unknown key ({signature.id}): {warning}"
    if verification.standing == "unsigned":
        yield "signature  unsigned: consistent, but anyone could have made it"


# --- JSON --------------------------------------------------------------------------------------------------


def _row(verification: VerifiedBundle | VerifiedProof) -> dict[str, Any]:
    if isinstance(verification, VerifiedProof):
        proved = verification.proved
        trial = proved.trial.trial
        own = {
            "proof_of": {
                "case_id": trial.case_id,
                "repeat": trial.repeat,
                "verdict": proved.trial.verdict.value,
            }
        }
        return {
            "path": verification.path,
            **own,
            **_statement_row(proved.statement),
            **_signature_rows(verification),
        }
    statement = verification.statement
    return {
        "path": verification.path,
        "kind": statement.kind,
        "result": statement.result,
        **_statement_row(statement),
        "split": statement.split,
        "merged_from": list(verification.run.merged_from),
        "suite_cases": verification.run.suite.case_count,
        "settings": to_builtins(verification.run.settings),
        "split_rule": to_builtins(verification.run.suite.split_rule),
        "pass_rule": to_builtins(verification.run.suite.pass_rule),
        "repeats_rule": verification.run.suite.repeats_rule,
        "seat": to_builtins(verification.run.seat),
        "judges": [spec.name for spec in all_judges(verification.run)],
        "regrade_of": verification.run.regrade_of,
        "taken_over": verification.reused_trials,
        "claims": {split: asdict(claim) for split, claim in statement.claims.items()},
        "looks": {"rate": statement.looks.rate, "reveal": statement.looks.reveal},
        "graded_again": verification.graded_again,
        "recounted": verification.recounted,
        "hidden": verification.hidden,
        "unverified": list(verification.unverified),
        **_signature_rows(verification),
    }


def _statement_row(statement: Statement) -> dict[str, Any]:
    return {
        "run": statement.run,
        "group": statement.group,
        "suite": statement.suite.name,
        "suite_version": statement.suite.version,
        "suite_digest": statement.suite.digest,
        "target": statement.target.name,
        "target_digest": statement.target.digest,
        "prompt": None if statement.prompt is None else statement.prompt.name,
        "prompt_digest": None if statement.prompt is None else statement.prompt.digest,
        "started_at": format_utc(statement.started_at),
        "finished_at": format_utc(statement.finished_at),
    }


def _signature_rows(verification: VerifiedBundle | VerifiedProof) -> dict[str, Any]:
    signatures = [{"id": signature.id, "name": signature.name} for signature in verification.signatures]
    return {"standing": verification.standing, "signatures": signatures}
