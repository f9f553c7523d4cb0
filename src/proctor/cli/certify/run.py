"""`proctor certify RUN|BUNDLE`: writes a verified pass rate as a certificate and as a badge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from proctor.bundles.trust_store import load_trusted_keys
from proctor.certification import MIN_CASES, CertificationTerms
from proctor.cli.certify.output import CertificateForms, check_outside_bundle, check_url, write_certificate
from proctor.cli.commands.attest import check_signing, is_bundle, load_signing_key
from proctor.cli.echo import echo_err
from proctor.cli.options import keys_path, open_store, store_location
from proctor.cli.output_files import check_outputs
from proctor.errors import ExitCode, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.certificates import run_certificate
from proctor.reports.certificates.run_certificate import RunCertificate
from proctor.services.bundles.attest import bundle_name, check_finished, includes_holdout
from proctor.services.bundles.certify import certify_bundle, new_bundle, record_certificate_access


def certify_run(**options: Any) -> int:
    """Checks a run or a bundle, prints its certificate, and writes it.

    Args:
        **options: the parameters of the command.
    """
    check_outputs(options["outputs"], charts=False)
    check_url(options["url"])
    word: str = options["run"]
    if is_bundle(word):
        for name, flag in (("bundle", "--bundle"), ("sign_key", "--sign-key"), ("no_sign", "--no-sign")):
            if options[name]:
                raise UsageError(f"{word!r} is already a bundle. Remove {flag}.")
        check_outside_bundle(options["outputs"], Path(word))
        with _open_store_if_any(options["store"]) as store:
            certificate = _certify(Path(word), options, store)
        _write(certificate, options, Path(word))
    else:
        _certify_stored(word, options)
    return ExitCode.OK


def _certify_stored(word: str, options: dict[str, Any]) -> None:
    check_signing(no_sign=options["no_sign"], sign_key=options["sign_key"])
    with open_store(options["store"], must_exist=True) as store, ExitStack() as stack:
        run = store.run(word)
        check_finished(store, run)
        path = _bundle_path(run, options)
        is_kept = path is not None
        if path is None:
            path = Path(stack.enter_context(TemporaryDirectory(prefix="proctor-"))) / bundle_name(
                run.id, public=False
            )
        check_outside_bundle(options["outputs"], path)
        key = (
            None if options["no_sign"] else load_signing_key(options["sign_key"], keys_path(options["keys"]))
        )
        with new_bundle(store, run, path, key, echo_err):
            certificate = _certify(path, options, store)
        looks = record_certificate_access(store, run, certificate, stays=is_kept)
        certificate = replace(certificate, looks=looks, bundle=certificate.bundle if is_kept else None)
    if is_kept and includes_holdout(run, certificate.statement):
        echo_err(
            f"{path} contains the held-out cases. To publish a bundle without them, run: proctor "
            f"attest {run.id} --public"
        )
    _write(certificate, options, path if is_kept else None)


def _bundle_path(run: Run, options: dict[str, Any]) -> Path | None:
    """Returns the path of the bundle: `--bundle`, else beside the certificate; None if it is not kept."""
    if options["bundle"]:
        return Path(options["bundle"])
    if not options["outputs"]:
        return None
    return Path(options["outputs"][0]).parent / bundle_name(run.id, public=False)


def _certify(path: Path, options: dict[str, Any], store: Store | None) -> RunCertificate:
    min_cases = options["min_cases"]
    terms = CertificationTerms(
        min_cases=MIN_CASES if min_cases is None else min_cases, allow_errors=options["allow_errors"]
    )
    keys = load_trusted_keys(keys_path(options["keys"]))
    return certify_bundle(path, keys, terms, force=options["force"], store=store, notify=echo_err)


def _write(certificate: RunCertificate, options: dict[str, Any], bundle: Path | None) -> None:
    write_certificate(
        CertificateForms(
            document=run_certificate.document_for(certificate, has_key_names=True),
            data=run_certificate.certificate_record(certificate),
            written=partial(run_certificate.document_for, certificate),
            badge=lambda link: run_certificate.make_badge(certificate, link),
        ),
        options["outputs"],
        as_json=options["as_json"],
        url=options["url"],
        bundle=bundle,
    )


@contextmanager
def _open_store_if_any(option: str | None) -> Iterator[Store | None]:
    """Opens the store if it exists; bundles can be certified without one."""
    if not store_location(option).exists():
        yield None
        return
    with open_store(option) as store:
        yield store
