"""`proctor attest`: writes a run as a signed bundle, adds a signature, or writes a proof of one trial."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from proctor.bundles.keys import SigningKey, get_signing_key, private_path
from proctor.cli.bundle_options import check_bundle_exists
from proctor.cli.echo import echo_err, echo_json
from proctor.cli.options import keys_flag, keys_option, keys_path, open_store, show, store_option
from proctor.errors import UsageError
from proctor.proof.statement import Statement
from proctor.reports.formatting import interval, percent, unmeasured
from proctor.safe_text import one_line
from proctor.services.bundles.attest import BUNDLE_SUFFIX, bundle_name


def check_signing(*, no_sign: bool, sign_key: str | None) -> None:
    """Refuses `--no-sign` beside `--sign-key`.

    Raises:
        UsageError: both are given.
    """
    if no_sign and sign_key:
        raise UsageError("--no-sign and --sign-key contradict each other. Remove one of them.")


def load_signing_key(name: str | None, folder: Path) -> SigningKey:
    """Returns the key of that name; without a name, the user's own, which is created if needed.

    Raises:
        UsageError: it does not exist or cannot be read, or `cryptography` is missing.
    """
    key = get_signing_key(folder, name)
    if key.is_new:
        echo_err(
            f"Created your signing key {private_path(folder, key.name)}. Its fingerprint is {key.id}. "
            "Keep this file private. Others need the public key, which `proctor keys "
            f"show{keys_flag(folder)}` prints."
        )
    return key


@click.command("attest")
@click.argument("run")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A folder, or an archive if it ends in .zip.  [default: RUN.bundle; with --public "
    "RUN.public.bundle, with --trial RUN.proof.json]",
)
@click.option("--public", is_flag=True, help="Replace held-out cases and their trials by digests.")
@click.option("--sign-key", metavar="NAME", help="Sign with this key instead of your `default`.")
@click.option(
    "--no-sign", is_flag=True, help="Do not sign. Without a signature, anyone could have made the bundle."
)
@click.option(
    "--trial", "case_id", metavar="ID", help="Write a proof for a single trial of this case, as JSON."
)
@click.option(
    "--repeat-number",
    type=click.IntRange(0),
    metavar="R",
    help="Which repeat of the case --trial means.  [default: 0, the first]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@keys_option
@store_option
def command(run: str, **options: Any) -> None:
    """Write RUN as a signed bundle that others can verify with `proctor verify`.

    RUN is an id, `last` or a tag, as in `proctor runs`. If you give the path of a bundle instead, the bundle
    is verified and your signature is added.

    \b
    proctor attest last
    proctor attest last --public -o release.zip
    proctor attest release.zip
    proctor attest last --trial capital-of-peru -o proof.json
    """  # noqa: D301  # click wants the character \b itself
    check_signing(no_sign=options["no_sign"], sign_key=options["sign_key"])
    if options["repeat_number"] is not None and options["case_id"] is None:
        raise UsageError("--repeat-number selects a repeat of the case of --trial. Add --trial ID.")
    if is_bundle(run):
        _countersign(run, options)
    else:
        _attest(run, options)


def is_bundle(word: str) -> bool:
    """Whether a word is the path of a bundle, not a run.

    Raises:
        UsageError: it has the ending of a bundle, and no such file exists.
    """
    if word.endswith((".zip", BUNDLE_SUFFIX)):
        check_bundle_exists(word)
    return os.path.lexists(word)


def _attest(word: str, options: dict[str, Any]) -> None:
    from proctor.services.bundles.attest import attest, check_finished, includes_holdout

    public, case_id = options["public"], options["case_id"]
    with open_store(options["store"], must_exist=True) as store:
        run = store.run(word)
        if case_id is None:
            path = Path(options["output"] or bundle_name(run.id, public=public))
        else:
            path = Path(options["output"] or f"{run.id}.proof.json")
            if path.suffix.lower() != ".json":
                raise UsageError(f"A proof is a JSON file, so {str(path)!r} must end in .json.")
        check_finished(store, run, store_flags=("--store", options["store"]) if options["store"] else ())
        key = (
            None if options["no_sign"] else load_signing_key(options["sign_key"], keys_path(options["keys"]))
        )
        if case_id is None:
            statement = attest(store, run, path, public=public, key=key, notify=echo_err)
        else:
            from proctor.services.bundles.prove import ProofCollector, prove

            collector = ProofCollector(case_id, options["repeat_number"] or 0, path)
            statement = prove(store, run, collector, public=public, key=key, notify=echo_err)
    if case_id is None and includes_holdout(run, statement):
        echo_err(
            f"{path} contains the held-out cases. To publish a bundle without them, run: proctor "
            f"attest {run.id} --public"
        )
    what = f"{statement.kind} bundle" if case_id is None else f"proof of case {case_id!r}"
    signed_by = () if key is None else (key.id,)
    if options["as_json"]:
        _print_json(path, statement, signed_by)
    else:
        show(_text_lines(path, what, statement, signed_by))


def _countersign(path: str, options: dict[str, Any]) -> None:
    for name in ("output", "public", "no_sign", "case_id"):
        if options[name]:
            flag = {"case_id": "trial", "no_sign": "no-sign"}.get(name, name)
            raise UsageError(
                f"{path!r} is a bundle, to which this command only adds a signature. Remove --{flag}."
            )
    from proctor.bundles.trust_store import load_trusted_keys
    from proctor.services.bundles.countersign import countersign

    folder = keys_path(options["keys"])
    key = load_signing_key(options["sign_key"], folder)
    result = countersign(Path(path), key, load_trusted_keys(folder), echo_err)
    if not result.added:
        echo_err(f"{path} is already signed with your key {key.name!r}. Nothing was written.")
    if options["as_json"]:
        _print_json(Path(path), result.statement, result.signed_by)
    else:
        show(_text_lines(Path(path), f"{result.statement.kind} bundle", result.statement, result.signed_by))


def _text_lines(path: Path, what: str, statement: Statement, signed_by: tuple[str, ...]) -> Iterator[str]:
    """Yields the lines that a terminal shows."""
    title = " ".join(filter(None, (statement.suite.name, statement.suite.version)))
    yield one_line(f"{path}: {what} of run {statement.run}, {title} on {statement.target_title}")
    for split, claim in sorted(statement.claims.items()):
        cases = "" if claim.cases == claim.total else f", {claim.cases:,} cases"
        rate = f"{percent(claim.pass_rate)}, 95% interval {interval(claim.ci95)}"
        line = f"  {split:<8}  {claim.passed:,} of {claim.total:,} passed{cases}: {rate}"
        rest = unmeasured(claim.unmeasured, claim.bounds)
        yield f"{line}, not measured {rest}" if rest else line
    for key_id in signed_by:
        yield f"  signed by {key_id}"
    if not signed_by:
        yield "  not signed: anyone could have made it"
    yield f"To verify it: proctor verify {shlex.quote(str(path))}"


def _print_json(path: Path, statement: Statement, signed_by: tuple[str, ...]) -> None:
    import json

    from msgspec import to_builtins

    row = to_builtins(statement)
    for name in ("passed_tests", "failed_tests"):
        del row[name]
    data = {"bundle": str(path), **row, "signed_by": list(signed_by), "exit_code": 0}
    echo_json(json.dumps(data, ensure_ascii=False, indent=2))
