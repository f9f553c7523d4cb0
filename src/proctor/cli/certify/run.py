"""`proctor certify RUN|BUNDLE`: a checked number as a certificate and as a badge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from proctor.bundles.trust_store import trusted
from proctor.certification import MIN_CASES, Terms
from proctor.cli.certify.output import Certificate, check_outside, check_url, give
from proctor.cli.commands.attest import is_bundle, name_of, own_key
from proctor.cli.echo import tell
from proctor.cli.options import keys_path, open_store, store_location
from proctor.cli.output_files import check_outputs
from proctor.errors import ExitCode, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.certificates import of_run
from proctor.reports.certificates.of_run import Certified
from proctor.services.bundles.attest import check_finished, shows_held_out
from proctor.services.bundles.certify import bundle_of, certify_bundle, looked_at


def certify_run(**given: Any) -> int:
    """Check a run or a bundle, print its certificate, and write it.

    Args:
        **given: the parameters of the command.
    """
    check_outputs(given["outputs"], charts=False)
    check_url(given["url"])
    word: str = given["run"]
    if is_bundle(word):
        for name, flag in (("bundle", "--bundle"), ("sign_key", "--sign-key"), ("no_sign", "--no-sign")):
            if given[name]:
                raise UsageError(f"{word!r} is a bundle already. Leave {flag} out.")
        check_outside(given["outputs"], Path(word))
        with _store_if_there(given["store"]) as store:
            certified = _certified(Path(word), given, store)
        _give(certified, given, Path(word))
    else:
        _certify_stored(word, given)
    return ExitCode.OK


def _certify_stored(word: str, given: dict[str, Any]) -> None:
    if given["no_sign"] and given["sign_key"]:
        raise UsageError("--no-sign and --sign-key say the opposite of each other. Leave one of them out.")
    with open_store(given["store"], must_exist=True) as store, ExitStack() as stack:
        run = store.run(word)
        check_finished(store, run)
        path = _place(run, given)
        stays = path is not None
        if path is None:
            path = Path(stack.enter_context(TemporaryDirectory(prefix="proctor-"))) / name_of(
                run.id, public=False
            )
        check_outside(given["outputs"], path)
        key = None if given["no_sign"] else own_key(given["sign_key"], keys_path(given["keys"]))
        with bundle_of(store, run, path, key, tell):
            certified = _certified(path, given, store)
        looks = looked_at(store, run, certified, stays=stays)
        certified = replace(certified, looks=looks, bundle=certified.bundle if stays else None)
    if stays and shows_held_out(run, certified.statement):
        tell(f"{path} has everything that is held out. For the public: proctor attest {run.id} --public")
    _give(certified, given, path if stays else None)


def _place(run: Run, given: dict[str, Any]) -> Path | None:
    """Where the bundle of a run goes: where the user says, else beside the certificate; None for nowhere."""
    if given["bundle"]:
        return Path(given["bundle"])
    if not given["outputs"]:
        return None
    return Path(given["outputs"][0]).parent / name_of(run.id, public=False)


def _certified(path: Path, given: dict[str, Any], store: Store | None) -> Certified:
    min_cases = given["min_cases"]
    terms = Terms(min_cases=MIN_CASES if min_cases is None else min_cases, allow_errors=given["allow_errors"])
    keys = trusted(keys_path(given["keys"]))
    return certify_bundle(path, keys, terms, force=given["force"], store=store, told=tell)


def _give(certified: Certified, given: dict[str, Any], bundle: Path | None) -> None:
    give(
        Certificate(
            lines=lambda: of_run.lines(certified),
            data=of_run.data(certified),
            markdown=lambda badge, place: of_run.markdown(certified, badge, place),
            badge=lambda link: of_run.badge_of(certified, link),
        ),
        given["outputs"],
        as_json=given["as_json"],
        url=given["url"],
        bundle=bundle,
    )


@contextmanager
def _store_if_there(given: str | None) -> Iterator[Store | None]:
    """The store, if there is one: a bundle needs none."""
    if not store_location(given).exists():
        yield None
        return
    with open_store(given) as store:
        yield store
