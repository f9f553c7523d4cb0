"""`proctor runs merge`: makes one run of the runs of several stores."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proctor.cli.config_defaults import ConfigDefaultsCommand
from proctor.cli.echo import echo_err, echo_json
from proctor.cli.options import open_store, show, store_location, store_option
from proctor.errors import UsageError
from proctor.open_file_limit import raise_open_file_limit

if TYPE_CHECKING:
    from proctor.protocols import Store
    from proctor.services.runs.merging.parts import MergeInput

_OTHER_FILES = 256
_FILES_PER_STORE = 4
"""The maximum number of files that a store that is read keeps open."""


@click.command("merge", cls=ConfigDefaultsCommand)
@click.argument("stores", metavar="STORE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as `run --json` does.")
@store_option
def merge(stores: Sequence[str], as_json: bool, store: str | None) -> int:
    """Merge the newest run in each STORE into one run.

    \b
    proctor runs merge shard-*.db --store merged.db

    The runs must be shards of one suite, with the same target, prompt, judges and settings. The merged run is
    written to the store of --store; the other stores are not changed. The exit code is that of the merged
    run, with its gate. If trials are missing, you can resume the merged run. Shards in one store are merged
    if they have the same --group.
    """  # noqa: D301  # click wants the character \b itself
    from proctor.reports.document import render_terminal
    from proctor.reports.runs import console, json
    from proctor.run_gate import worst_exit_code
    from proctor.services.project_store import check_store_exists
    from proctor.services.runs.merging.merge_runs import merge_runs
    from proctor.services.runs.reading.report import build_report, record_report_access
    from proctor.stores import locate_store

    names = list(dict.fromkeys(stores))
    for name in names:
        location = locate_store(name)
        if not location.exists():
            raise UsageError(f"There is no store at {location.address}. Correct the path, or remove it.")
        check_store_exists(location)
    raise_open_file_limit(_OTHER_FILES + _FILES_PER_STORE * len(names))
    with ExitStack() as stack:
        out = stack.enter_context(open_store(store, writes=True))
        inputs = [_open_input(name, out, store, stack) for name in names]
        results = merge_runs(inputs, out, os.environ, echo_err)
        reports = [
            record_report_access(out, build_report(out, result.run, stored=True), reveal=False)
            for result in results
        ]
        if as_json:
            notes = [result.notes for result in results]
            echo_json(json.render_merged(list(zip(reports, notes, strict=True))))
        for number, (result, report) in enumerate(zip(results, reports, strict=True)):
            if not as_json:
                show(chain([""] * (number > 0), render_terminal(console.document_for(report))))
            if not result.is_new:
                echo_err(f"These runs are already merged, as run {result.run.id}. Nothing was changed.")
            for note in result.notes:
                echo_err(note)
            if result.run.status == "interrupted" and out.is_durable:
                option = f" --store {shlex.quote(store)}" if store else ""
                echo_err(f"Continue with: proctor run --resume={result.run.id}{option}")
    return worst_exit_code(report.exit_code for report in reports)


def _open_input(name: str, out: Store, option: str | None, stack: ExitStack) -> MergeInput:
    """Opens an input for reading; the store that is written is not opened twice."""
    from proctor.services.runs.merging.parts import MergeInput
    from proctor.stores import locate_store

    location, out_address = locate_store(name), store_location(option).address
    if location.address == out_address or _is_same_file(location.address, out_address):
        return MergeInput(name, out)
    return MergeInput(name, stack.enter_context(closing(location.open_to_read())))


def _is_same_file(first: str, second: str) -> bool:
    try:
        return Path(first).samefile(second)
    except OSError:
        return False
