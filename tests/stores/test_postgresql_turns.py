"""The order of trials in PostgreSQL, where several processes write the trials of one run."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from proctor.model import Verdict
from proctor.protocols import Store
from proctor.stores.location import StoreLocation
from support.builders import make_trial
from support.stores import begin_run
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def stores(postgres_location: StoreLocation) -> Any:
    """Three stores, as three processes open them."""
    new_stores = [postgres_location.open_store() for _ in range(3)]
    yield new_stores
    for store in new_stores:
        store.close()


def test_a_reader_misses_no_trial_of_a_writer_that_commits_late(
    stores: list[Store], postgres_server: Any, postgres_location: Any
) -> None:
    """The slow writer's transaction gets its turn first and commits after one that began later."""
    first, second, reader = stores
    run = begin_run(first)
    schema = postgres_location.connector.schema
    with postgres_server.connect() as gate:
        # The first writer's rows wait inside its transaction, when they have their turns.
        gate.execute(f"""CREATE FUNCTION "{schema}".wait() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN IF NEW.position = 0 THEN PERFORM pg_advisory_xact_lock(77); END IF; RETURN NULL; END $$""")
        gate.execute(f"""CREATE TRIGGER wait AFTER INSERT ON "{schema}".trials
            FOR EACH ROW EXECUTE FUNCTION "{schema}".wait()""")
        gate.execute("SELECT pg_advisory_lock(77)")
        first.save_trial(run.id, make_trial("0", case_id="c0", position=0), Verdict.PASS)

        def count_waiting() -> int:
            rows = gate.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
            return int(rows[0])

        wait_until(lambda: count_waiting() == 1)
        second.save_trial(run.id, make_trial("1", case_id="c1", position=1), Verdict.PASS)
        thread = Thread(target=second.flush)
        thread.start()
        wait_until(lambda: count_waiting() == 2 or not thread.is_alive())
        positions, last = [], 0
        for update in reader.trials_since(run.id):
            positions.append(update.trial.position)
            last = max(last, update.turn)
        gate.execute("SELECT pg_advisory_unlock(77)")
    thread.join()
    first.flush()
    second.flush()
    positions += [update.trial.position for update in reader.trials_since(run.id, last)]
    assert sorted(positions) == [0, 1]
