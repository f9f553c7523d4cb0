"""Checks the integrity of a store: every row that Proctor relies on, from one snapshot. Writes nothing."""

from __future__ import annotations

from contextlib import closing

from proctor.plurals import pluralize
from proctor.store_protocol import Progress
from proctor.stores.location import StoreReport
from proctor.stores.postgresql.case_staging import PostgresCaseStaging
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.run_locks import PostgresRunLocks
from proctor.stores.postgresql.schema import check_version
from proctor.stores.sql.row_check import Remedies, RowCheck
from proctor.stores.sql.unused_rows import count_unused_rows
from proctor.stores.sql.wait_policy import WaitPolicy

_BACKUP = "Restore the database from a backup made with pg_dump."
_REMEDIES = Remedies(
    row=_BACKUP,
    suite="Save the suite file again with `proctor suites save`, or restore the database from a backup.",
    run="Run it again with `proctor run`, or restore the database from a backup.",
)
_SIZES = """SELECT relname, pg_total_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = to_regnamespace(?) ORDER BY relname"""


def check_store(
    connector: PostgresConnector, on_progress: Progress = lambda _count, _total: None
) -> StoreReport:
    """Checks a store.

    Args:
        connector: opens connections to it.
        on_progress: called with the amount done and the total.

    Raises:
        StoreError: it cannot be read at all, or does not have the tables of this version.
    """
    with (
        closing(PostgresDatabase(connector, WaitPolicy())) as database,
        closing(PostgresRunLocks(database)) as run_locks,
    ):
        version = check_version(database)
        with database.snapshot():
            sizes = {name: int(size) for name, size in database.select(_SIZES, connector.schema)}
            rows = {
                name: int(database.fetch_one(f'SELECT count(*) FROM "{name}"')[0])  # noqa: S608
                for name in sizes
            }
            check = RowCheck(connector.address, database.iterate, run_locks, on_progress, _REMEDIES)
            problems = tuple(check.find_problems(rows))
            notes = list(check.find_notes())
            for noun, count in count_unused_rows(database, PostgresCaseStaging(database)).items():
                notes.append(f"Not in use: {pluralize(count, noun)}. `proctor store gc` removes them.")
    return StoreReport(
        path=connector.address, version=version, problems=problems, notes=tuple(notes), rows=rows, sizes=sizes
    )
