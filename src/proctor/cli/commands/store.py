"""`proctor store`: checks, copies, repairs and tidies a store, and makes its tables."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from proctor.cli.echo import echo, echo_err, echo_json, echo_line
from proctor.cli.options import open_store, show, store_location, store_option
from proctor.errors import ExitCode, UsageError
from proctor.plurals import format_size, pluralize
from proctor.services.progress_lines import progress_reporter

if TYPE_CHECKING:
    from proctor.services.store_cleanup import Garbage
    from proctor.stores.location import MigrationReport, SalvageResult, StoreMaintenance, StoreReport


@click.group("store")
def command() -> None:
    """Check, back up, copy, repair and clean up the store.

    The store is a file, or a database such as postgresql://HOST/DATABASE. Set it with --store or
    $PROCTOR_STORE; the default is the file of the project.
    """


def _maintenance(address: str | None) -> StoreMaintenance:
    """Returns what checks, backs up and repairs a store.

    Raises:
        UsageError: the store has no file.
    """
    location = store_location(address)
    if location.maintenance is None:
        raise UsageError(
            f"The store {location.address} has no file to check, back up or repair. Name a file with --store."
        )
    return location.maintenance


@command.command("check")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def check(as_json: bool, store: str | None) -> int:
    """Check the store and every row in it.

    Exit codes: 0 if the store is sound, 1 if something is wrong, 4 if it cannot be read. The check changes
    nothing, and can run while other commands use the store.
    """
    report = _maintenance(store).check(progress_reporter(echo_err, "rows checked"))
    code = ExitCode.FAILED if report.problems else ExitCode.OK
    if as_json:
        echo_json(_report_json(report, code))
    else:
        show(_report_lines(report))
    return code


def _report_lines(report: StoreReport) -> list[str]:
    size = format_size(sum(report.sizes.values()))
    rows = report.rows
    counts = _count_rows(rows) if rows else []
    totals = ", ".join([*counts, size])
    lines = [f"{problem.message} {problem.remedy}" for problem in report.problems]
    count = pluralize(len(lines), "problem")
    head = f"{report.path} has {count}" if lines else f"{report.path} is sound"
    return [f"{head}: {totals}.", *lines, *report.notes]


_NOUNS = {"runs": "run", "trials": "trial", "versions": "version", "cases": "case"}


def _count_rows(rows: Mapping[str, int]) -> list[str]:
    return [pluralize(rows.get(name, 0), noun) for name, noun in _NOUNS.items()]


def _report_json(report: StoreReport, code: int) -> str:
    problems = [
        {"code": problem.code, "message": problem.message, "remedy": problem.remedy}
        for problem in report.problems
    ]
    fields = {"store": report.path, "version": report.version, "problems": problems, "notes": report.notes}
    return dumps({**fields, "rows": report.rows, "bytes": report.sizes, "exit_code": int(code)}, indent=2)


@command.command("migrate")
@click.option(
    "--grant", multiple=True, metavar="ROLE", help="Grant this role reading and writing. May be repeated."
)
@click.option("--grant-read", multiple=True, metavar="ROLE", help="Grant this role reading. May be repeated.")
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL for psql, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def migrate(
    grant: tuple[str, ...], grant_read: tuple[str, ...], as_sql: bool, as_json: bool, store: str | None
) -> None:
    """Create the tables of the store, or upgrade them.

    In PostgreSQL, run this command as the role that owns the tables, or the database if there are no tables
    yet. All other commands need only the rights that --grant gives.

    You do not need it for a store in a file: every command that writes creates the file, or upgrades it after
    a backup.
    """
    from proctor.stores.location import Grants

    if as_sql and as_json:
        raise UsageError("--sql and --json cannot be combined. Remove one of them.")
    for flag, words in (("--grant", grant), ("--grant-read", grant_read)):
        if any("," in word for word in words):
            raise UsageError(f"Write {flag} once for each role.")
    location, grants = store_location(store), Grants(write=grant, read=grant_read)
    if as_sql:
        show(location.migration_script(grants).splitlines())
        return
    report = location.migrate(grants, echo_err)
    if as_json:
        roles = {"write": report.grants.write, "read": report.grants.read}
        fields = {"store": location.address, "from": report.before, "to": report.after, "granted": roles}
        echo_json(dumps({**fields, "exit_code": 0}, indent=2))
    else:
        show(_migration_lines(location.address, report))


def _migration_lines(address: str, report: MigrationReport) -> Iterator[str]:
    if not report.before:
        yield f"Created the tables of {address}, version {report.after}."
    elif report.before < report.after:
        yield f"Upgraded {address} from version {report.before} to {report.after}."
    else:
        yield f"{address} is up to date: version {report.after}."
    for roles, rights in ((report.grants.write, "read and write"), (report.grants.read, "read")):
        if roles:
            yield f"{', '.join(roles)} may {rights}."


@command.command("backup")
@click.argument("file")
@store_option
def backup(file: str, store: str | None) -> None:
    """Copy the store to FILE, a new file.

    Other commands can use the store meanwhile: the copy shows it at one moment. FILE appears once the copy is
    complete and checked. To go back to it, name it with --store, or replace the store with it.
    """
    to = Path(file)
    rows = _maintenance(store).back_up(to, progress_reporter(echo_err, "pages copied"))
    totals = ", ".join(_count_rows(rows))
    echo_line(f"Backed up to {file}: {totals}, {format_size(to.stat().st_size)}.", err=True)


@command.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("to")
@click.option("--cache", is_flag=True, help="Also copy the answers in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def copy(source: str, to: str, cache: bool, as_json: bool) -> None:
    """Copy the store FROM to TO.

    TO must be empty or missing. Both are addresses as for --store, of any kind. If TO is in PostgreSQL, run
    `proctor store migrate` on it first. Other commands can use FROM meanwhile: the copy shows it at one
    moment, including the deleted suite versions that can be restored. At the end, the rows are read back and
    the digests of both stores are compared. After an error, TO is unchanged.

    With --cache, cached answers are copied to the file cache.db beside TO, or in PostgreSQL to a table.
    """
    from proctor.stores import locate_store
    from proctor.stores.store_copy import copy_store

    started_at = monotonic()
    locations = locate_store(source), locate_store(to)
    on_progress = progress_reporter(echo_err, "rows read or written")
    result = copy_store(*locations, with_cache=cache, on_progress=on_progress, notify=echo_err)
    duration_s = monotonic() - started_at
    if as_json:
        fields = {
            "from": locations[0].address,
            "to": locations[1].address,
            "rows": result.rows,
            "deleted_versions": result.deleted_versions,
            "answers": result.answers,
            "duration_s": round(duration_s, 3),
            "digest": result.source_digest,
            "copy_digest": result.copy_digest,
        }
        echo_json(dumps({**fields, "exit_code": 0}, indent=2))
        return
    counts = _count_rows(result.rows)
    if result.deleted_versions:
        counts.append(pluralize(result.deleted_versions, "deleted version"))
    if result.answers is not None:
        counts.append(pluralize(result.answers, "cached answer"))
    echo_line(f"Copied {', '.join(counts)} to {locations[1].address} in {duration_s:.1f} s.", err=True)
    echo_line(f"{result.source_digest} (equal)")


@command.command("digest")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def digest(as_json: bool, store: str | None) -> None:
    """Print the digest of everything in the store.

    Stores with the same suites, runs, trials, labels and comments have the same digest, in any kind of
    database. Caches and deleted suite versions do not count. Holdout accesses do: `runs show`, `attest` or
    `export` of a run with a holdout changes the digest.
    """
    from proctor.stores.store_copy import compute_digest

    location = store_location(store)
    result = compute_digest(location, progress_reporter(echo_err, "rows read"), echo_err)
    if as_json:
        fields = {"store": location.address, "digest": result.digest, "rows": result.rows}
        echo_json(dumps({**fields, "exit_code": 0}, indent=2))
    else:
        echo_line(f"{result.digest} {', '.join(_count_rows(result.rows))}")


@command.command("repair")
@click.argument("newfile")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def repair(newfile: str, as_json: bool, store: str | None) -> int:
    """Recover a damaged store into NEWFILE.

    Copies every row from the undamaged parts of the file, and counts the rows that are known to be lost. The
    damaged store is not changed. A run that lost trials is unfinished in the new store; complete it with `run
    --resume`. Exit codes: 0 if no loss is known, else 1.
    """
    result = _maintenance(store).repair(Path(newfile), progress_reporter(echo_err, "pages read"))
    code = ExitCode.FAILED if result.lost or result.runs or result.suites else ExitCode.OK
    if as_json:
        runs = [
            {"run": run, "trials": trial_count, "planned": planned_count}
            for run, trial_count, planned_count in result.runs
        ]
        fields = {
            "store": newfile,
            "kept": result.kept,
            "lost": result.lost,
            "runs": runs,
            "suites": result.suites,
        }
        echo_json(dumps({**fields, "exit_code": int(code)}, indent=2))
    else:
        show(_repair_lines(newfile, result))
    return code


def _repair_lines(to: str, result: SalvageResult) -> Iterator[str]:
    width = max(map(len, result.kept))
    yield f"{'table':<{width}}  {'kept':>10}  {'lost':>10}"
    for table, kept_count in result.kept.items():
        yield f"{table:<{width}}  {kept_count:>10,}  {result.lost.get(table, 0):>10,}"
    for run, trial_count, planned_count in result.runs:
        yield (
            f"Run {run} has {trial_count:,} of {pluralize(planned_count, 'trial')} and is unfinished now: "
            f"`proctor run --resume={run} --store {shlex.quote(to)}` completes it."
        )
    for suite in result.suites:
        yield (
            f"Suite {suite} lost cases and cannot be used until you save its file again: `proctor "
            f"suites save FILE --store {shlex.quote(to)}`."
        )
    yield f"Every readable row is in {to}. The damaged store was not changed."


@command.command("gc")
@click.option("-y", "--yes", is_flag=True, help="Remove everything listed, without confirmation.")
@click.option("--dry-run", is_flag=True, help="Only list; remove nothing.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(["workspaces", "parts", "versions", "caches", "leftovers"]),
    help="Only this kind of item. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def collect(yes: bool, dry_run: bool, only: tuple[str, ...], as_json: bool, store: str | None) -> None:
    """List data that is no longer needed, and remove it.

    You confirm before anything is removed. The list covers the workspaces of runs, files that killed commands
    left behind, old suite versions without a run, suite versions deleted more than 30 days ago, caches that
    are damaged or unused for 30 days, and rows that nothing refers to. Data that a running process may use is
    never removed.
    """
    from proctor.services.store_cleanup import GARBAGE_KINDS, find_garbage

    if yes and dry_run:
        raise UsageError("--dry-run and --yes cannot be combined. Remove one of them.")
    with open_store(store, must_exist=True, writes=not dry_run) as store_opened:
        garbage = find_garbage(store_opened, store_location(store), os.environ)
        items = [item for item in garbage if item.kind in (only or GARBAGE_KINDS)]
        if not as_json:
            show(_garbage_lines(items))
        may_ask = not dry_run and not as_json and sys.stdin.isatty()
        confirmed = bool(items) and (yes or (may_ask and click.confirm("Remove all of it?", err=True)))
        removed_items = _remove(items) if confirmed else []
    if as_json:
        rows = [
            {
                "kind": item.kind,
                "what": item.description,
                "bytes": item.size,
                "removed": item in removed_items,
            }
            for item in items
        ]
        echo_json(dumps({"items": rows, "exit_code": 0}, indent=2))
    elif confirmed:
        echo(f"Removed {pluralize(len(removed_items), 'item')}, {_total_size(removed_items)}.", err=True)
    elif items and not dry_run:
        echo("Nothing was removed. Add --yes to remove what is listed.", err=True)


def _garbage_lines(items: Sequence[Garbage]) -> list[str]:
    if not items:
        return ["Nothing to remove."]
    width = max(len(item.kind) for item in items)
    lines = [
        f"{item.kind:<{width}}  {format_size(item.size) if item.size else '':>9}  {item.description}"
        for item in items
    ]
    return [*lines, f"{pluralize(len(items), 'item')}, {_total_size(items)}"]


def _total_size(items: Sequence[Garbage]) -> str:
    return format_size(sum(item.size for item in items))


def _remove(items: Sequence[Garbage]) -> list[Garbage]:
    """Removes items; warns of those that cannot be removed, and returns the others."""
    from proctor.errors import StoreError
    from proctor.services.store_cleanup import remove_garbage

    removed_items = []
    for item in items:
        try:
            remove_garbage(item)
        except StoreError as error:  # somebody uses it now
            echo_err(f"proctor: warning: {error}")
        else:
            removed_items.append(item)
    return removed_items
