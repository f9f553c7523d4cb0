"""Reads a verified bundle's suite and trials again for a store, and compares them with the digests.

Others may change a bundle at any time; anything that was not verified is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from proctor.bundles.reader import Bundle
from proctor.bundles.trust_store import TrustedKey
from proctor.codec import SuiteHasher, judged_digest, sent_digest
from proctor.errors import BundleError, UsageError
from proctor.model import Selection, Suite, SuiteDefaults
from proctor.plan import CaseIndexer
from proctor.proof.check_statement import format_value
from proctor.proof.records import CaseLine, RedactedLine, TrialLine, parse_case_line, parse_trial_line
from proctor.proof.statement import SUITE, TRIALS, Statement
from proctor.protocols import Store
from proctor.services.bundles.side_effects import SideEffectCheck
from proctor.services.bundles.verify import VerifiedBundle, verify
from proctor.services.progress_lines import Notify
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS
from proctor.services.suites.save_and_open import builtin_digest, check_builtin
from proctor.services.suites.saved_names import split_version
from proctor.spools import RowSorter

T = TypeVar("T")

_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
"""The form of ids from `new_id` in `runs/request.py`."""
_MAX_NAME_LENGTH = 200
"""In characters; lists of runs have no room for longer names."""


class ImportOptions(Struct, frozen=True, kw_only=True):
    """What a user requires of a bundle before it is imported."""

    trusted_keys: Mapping[str, TrustedKey] = {}
    """The keys that the user trusts, by their ids."""
    require_signature: bool = False
    """It must be signed by one of them."""
    allow_programs: bool = False
    """The suite may do what `find_side_effects` lists."""
    own_targets: frozenset[str] = frozenset()
    """The names of the user's own targets file."""
    judged: bool = False
    """Whether the user names the judges."""


def verify_for_import(path: Path, options: ImportOptions, notify: Notify | None = None) -> VerifiedBundle:
    """Verifies a bundle, and checks that it is signed as the options require.

    Raises:
        BundleError: it has a defect, or is not signed as required.
        UsageError: there is no bundle.
    """
    verification = verify(path, options.trusted_keys, notify)
    if options.require_signature and verification.standing != "trusted":
        how = (
            "is not signed"
            if verification.standing == "unsigned"
            else "is signed by keys that you do not trust"
        )
        raise BundleError(f"{path} {how}, but a signature by a trusted key is required. Nothing was done.")
    for what, identifier in (("run", verification.statement.run), ("group", verification.statement.group)):
        if not _RUN_ID.fullmatch(identifier):
            raise BundleError(f"{path} has the {what} id {format_value(identifier)}, which is not valid.")
    return verification


def read_cases(bundle: Bundle, statement: Statement) -> Iterator[CaseLine]:
    """Yields the cases that a bundle shows, in order.

    Raises:
        BundleError: at the end at the latest, if they are not those that were verified.
    """
    for line in _read_lines(bundle, statement, SUITE, skipped=1):
        record = _parse_line(bundle, parse_case_line, line)
        if not isinstance(record, RedactedLine):
            yield record


def read_trials(bundle: Bundle, statement: Statement) -> Iterator[TrialLine]:
    """Yields the trials that a bundle shows, in order; raises as `read_cases` does."""
    for line in _read_lines(bundle, statement, TRIALS):
        record = _parse_line(bundle, parse_trial_line, line)
        if not isinstance(record, RedactedLine):
            yield record


def read_target_names(environ: Mapping[str, str]) -> frozenset[str]:
    """Returns the names in the user's own targets file; none if there is no such file.

    Raises:
        SuiteError: the file is invalid.
    """
    return frozenset(TargetNames(environ).names())


def describe_signatures(verification: VerifiedBundle) -> str:
    """Describes how a bundle is signed, with whole fingerprints."""
    by = ", ".join(
        f"{signature.name} ({signature.id})"
        for signature in verification.signatures
        if signature.name is not None
    )
    if verification.standing == "trusted":
        return f"signed by a trusted key, {by}."
    if verification.standing == "unknown":
        return (
            f"signed by an unknown key, {', '.join(signature.id for signature in verification.signatures)}."
        )
    return "unsigned. It is consistent, but anyone could have made it."


def import_suite(store: Store, bundle: Bundle, verification: VerifiedBundle, options: ImportOptions) -> Suite:
    """Saves a bundle's suite in a store, as a further version where its name is taken.

    Of a public bundle the cases that it shows are saved, as a suite of their own that is not split. The
    suite's defaults for runs are left out: a stranger may not choose targets and settings here.

    Raises:
        BundleError: it was changed since it was verified.
        UsageError: it would act on this machine and may not, or its name is not allowed.
    """
    statement, is_full = verification.statement, verification.statement.kind == "full"
    header = replace(verification.run.suite, version=None, folder="", defaults=SuiteDefaults())
    if not is_full:
        name = f"{header.name.removeprefix(BUILTIN_PREFIX)} (public part)"
        header = replace(header, name=name, split_rule=None)
    side_effects = SideEffectCheck(options.own_targets, judged=options.judged)
    indexer = CaseIndexer(Selection(), None)
    digests = RowSorter[tuple[str, str, str]](tuple[str, str, str])
    count = 0
    writer = store.open_suite_writer(aside=True)
    try:
        for position, line in enumerate(read_cases(bundle, statement)):
            sent_hash = sent_digest(line.case)
            digests.add((line.case.id, sent_hash, judged_digest(line.case)))
            count += 1
            indexer.add(line.case)
            side_effects.add(position, line.case)
            writer.add(line.case, sent_hash)
        hasher = SuiteHasher(header)
        for row in digests:
            hasher.add(row)
        suite = replace(header, case_count=count, digest=hasher.digest())
        if is_full and suite.digest != statement.suite.digest:
            raise _changed_error(bundle)
        if not options.allow_programs:
            side_effects.check(indexer.build(suite.split_rule))
        return writer.commit(replace(suite, name=check_imported_name(suite)))
    finally:
        writer.discard()


def check_imported_name(suite: Suite) -> str:
    """Returns the name under which a bundle's suite is saved; earlier versions called a built-in one `cheap`.

    Raises:
        UsageError: the name is one of a version or of a built-in suite with other cases, or is too long.
    """
    name = suite.name
    if (
        not name.strip()
        or not name.isprintable()
        or len(name) > _MAX_NAME_LENGTH
        or split_version(name) is not None
    ):
        raise UsageError(
            f"The suite of this bundle is called {format_value(name)}, which is not a valid name for a suite."
        )
    if name in TIERS and suite.digest == builtin_digest(name):
        return f"{BUILTIN_PREFIX}{name}"
    try:
        check_builtin(name, suite.digest)
    except UsageError:
        raise UsageError(
            f"The suite of this bundle is called {name!r}, but it differs from the built-in suite of "
            "that name. Another version of Proctor may have made the bundle. Nothing was saved."
        ) from None
    return name


def _read_lines(bundle: Bundle, statement: Statement, name: str, skipped: int = 0) -> Iterator[bytes]:
    hasher = sha256()
    for index, line in enumerate(bundle.lines(name, hasher)):
        if index >= skipped:
            yield line
    if hasher.hexdigest() != statement.files[name]:
        raise _changed_error(bundle)


def _parse_line(bundle: Bundle, parse: Callable[[bytes], T], line: bytes) -> T:
    try:
        return parse(line)
    except ValueError:
        raise _changed_error(bundle) from None


def _changed_error(bundle: Bundle) -> BundleError:
    return BundleError(
        f"{bundle.path} changed while it was read. Nothing was stored. Verify the bundle again."
    )
