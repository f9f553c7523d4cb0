"""`proctor runs`: lists, shows, stops, merges, exports, imports, tags and deletes the runs of the store."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from json import dumps
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from proctor.cli.bundle_options import bundle_options, check_bundle_exists, get_import_options
from proctor.cli.config_defaults import ConfigDefaultsCommand
from proctor.cli.echo import echo, echo_err, echo_json
from proctor.cli.merge_runs import merge
from proctor.cli.options import confirm_deletion, open_store, reveal_option, show, store_option
from proctor.cli.output_files import check_outputs, write_output
from proctor.errors import ExitCode, StoreError, UsageError
from proctor.model import Run, Verdict
from proctor.plan import matches_id
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.document import render_terminal
from proctor.reports.runs import console, json, listing, trial_text
from proctor.reports.runs.prompts import prompt_lines, render_prompt
from proctor.reports.runs.serialize import TrialResult, prompt_record
from proctor.safe_text import json_text, one_line
from proctor.services.judges.label_export import export_label_lines, no_labels_error
from proctor.services.runs.execution.workspaces import workspaces_folder
from proctor.services.runs.reading.listing import RunFilter, find_runs, summarize_run
from proctor.services.runs.reading.report import (
    build_report,
    check_report_paths,
    has_holdout,
    read_trial_rows,
    record_holdout_access,
    record_holdout_accesses,
    record_report_access,
    write_report,
)
from proctor.verdicts import pass_rules_for


@click.group("runs")
def command() -> None:
    """List, show, stop, merge, export, import, tag and delete stored runs.

    RUN is the id of a run, or an unambiguous beginning of it; `last` for the newest run; or a tag, for the
    newest run with that tag.
    """


command.add_command(merge)


@command.command("list")
@click.option("--suite", metavar="NAME", help="Only runs of this suite.")
@click.option("--prompt", metavar="NAME", help="Only runs with the prompt of this name.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number of runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def list_runs(limit: int, as_json: bool, store: str | None, **conditions: str | None) -> None:
    """List runs, newest first."""
    with open_store(store, must_exist=True) as run_store:
        runs = list(islice(find_runs(run_store, RunFilter(**conditions)), limit + 1))
        more = len(runs) > limit
        rows = [summarize_run(run_store, run) for run in runs[:limit]]
    if as_json:
        echo_json(listing.render(rows, more=more))
        return
    table = listing.list_table(rows, notes=[f"To see more, add --limit {limit * 5}"] * more)
    show(render_terminal([table]) if rows else ["No stored run matches."])


_SIGNATURE_TEXTS = {
    "trusted": "signed by a trusted key",
    "unknown": "signed only by unknown keys",
    "unsigned": "not signed: anyone could have made it",
}


@command.command("show", cls=ConfigDefaultsCommand)
@click.argument("run")
@click.option(
    "--failures",
    is_flag=True,
    help="Show the trials that failed, errored or were unscored, with input and answer.",
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="GLOB",
    help="Show all details of the cases whose id matches. May be repeated.",
)
@click.option(
    "--full", is_flag=True, help="With --case or --failures: also show reasoning and token probabilities."
)
@click.option("--prompt", "prompt_only", is_flag=True, help="Show only the text of the prompt.")
@reveal_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in the format of `run --json`.")
@store_option
def show_run(
    run: str,
    failures: bool,
    cases: tuple[str, ...],
    full: bool,
    prompt_only: bool,
    reveal: bool,
    as_json: bool,
    store: str | None,
) -> None:
    """Show the results of RUN."""
    if prompt_only and (failures or cases):
        raise UsageError("--prompt shows only the prompt. Remove --failures and --case.")
    if full and not (failures or cases):
        raise UsageError("--full shows more about single answers. Add --case ID or --failures.")
    with open_store(store, must_exist=True) as run_store:
        stored_run = run_store.run(run)
        if prompt_only:
            _show_prompt(stored_run, as_json=as_json)
            return
        if not cases and not failures:
            report = record_report_access(
                run_store, build_report(run_store, stored_run, reveal=reveal, stored=True), reveal=reveal
            )
            if as_json:
                echo_json(json.render_summary([report]))
            else:
                lines = render_terminal(console.document_for(report))
                from proctor.services.progress import format_warning

                warnings = (format_warning(one_line(message)) for message in stored_run.warnings)
                show(chain(lines, warnings, _describe_prompt(stored_run), _describe_origin(stored_run)))
            return
        rows = _select_rows(run_store, stored_run, cases, failures=failures, reveal=reveal)
        if as_json:
            echo_json(json.render_trials(stored_run, rows))
        else:
            show(chain(_trial_lines(stored_run, rows, full=full), _describe_origin(stored_run)))


def _select_rows(
    store: Store, run: Run, cases: Sequence[str], *, failures: bool, reveal: bool
) -> Iterable[TrialResult]:
    """Returns the trials of some or all cases; with `failures`, only those without PASS.

    The failures of a holdout reveal its pass rate and count as an access; the verdict of one case does not.
    """
    if cases:
        _record_accesses(store, run, cases, reveal=reveal)
    elif has_holdout(store, run):
        record_holdout_accesses(store, run, reveal=reveal)
    return (
        row
        for row in read_trial_rows(store, run, reveal=reveal)
        if (not cases or matches_id(row.trial.case_id, cases))
        and not (failures and row.verdict is Verdict.PASS)
    )


def _record_accesses(store: Store, run: Run, cases: Sequence[str], *, reveal: bool) -> None:
    """Records the holdout accesses that result from showing these cases.

    Raises:
        UsageError: no case matches.
    """
    splits = {
        stored_trial.trial.case_id: stored_trial.trial.split
        for stored_trial in store.trials(run.id)
        if stored_trial.verdict is not None and matches_id(stored_trial.trial.case_id, cases)
    }
    if not splits:
        raise UsageError(
            f"Run {run.id} has no finished trial of a case {' or '.join(map(repr, cases))}. To see all "
            f"cases: `proctor runs show {run.id} --case '*'`."
        )
    held_out = [split for split in splits.values() if split == "holdout"]
    if len(held_out) > 1:
        record_holdout_accesses(store, run, reveal=reveal)
    elif held_out and reveal:
        record_holdout_access(store, run, "reveal")


def _trial_lines(run: Run, rows: Iterable[TrialResult], *, full: bool) -> Iterator[str]:
    rules, is_empty = pass_rules_for(run), True
    for row in rows:
        is_empty = False
        yield from trial_text.render_text(row, rules(row.case), full=full)
    if is_empty:
        yield "Every trial passed."


def _show_prompt(run: Run, *, as_json: bool) -> None:
    if run.prompt is None:
        raise UsageError(f"Run {run.id} has no prompt: its cases were sent as they are.")
    if as_json:
        echo_json(render_prompt(run.prompt))
    else:
        show(prompt_lines(run.prompt))


def _describe_prompt(run: Run) -> Iterator[str]:
    prompt = prompt_record(run)
    if prompt is not None:
        yield one_line(f"Prompt {prompt.name}, {prompt.digest}: proctor runs show {run.id} --prompt")


def _describe_origin(run: Run) -> Iterator[str]:
    """Yields whether the run was imported, and where its workspaces are."""
    if run.imported is not None:
        yield f"Imported from a bundle that is {_SIGNATURE_TEXTS[run.imported]}."
    folder = workspaces_folder(os.environ) / run.id
    if folder.is_dir():
        yield f"Kept workspaces of the whole run: {folder}"


@command.command("stop")
@click.argument("run", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def stop(run: tuple[str, ...], as_json: bool, store: str | None) -> int:
    """Stop each RUN, like Ctrl-C in the terminal that started it.

    Requests in progress have 1 second to finish. Finished trials are kept, and each run can be resumed. A
    process with several runs stops all of them. The command returns when the runs have ended, or after 30
    seconds. If the store is in PostgreSQL, it also stops runs on other machines.
    """
    from proctor.services.runs.starts.stop_run import MAX_STOP_WAIT_S, stop_runs

    with open_store(store, must_exist=True) as run_store:
        stopped_runs = stop_runs(run_store, run)
        rows = [(stopped, summarize_run(run_store, stopped.run).verdict_count) for stopped in stopped_runs]
    exit_code = ExitCode.OK if all(stopped.has_ended for stopped in stopped_runs) else ExitCode.FAILED
    if as_json:
        records = [
            {
                "run": stopped.run.id,
                "status": stopped.run.status,
                "ended": stopped.has_ended,
                "done": trial_count,
                "planned": stopped.run.planned,
                "owner": to_builtins(stopped.owner),
            }
            for stopped, trial_count in rows
        ]
        echo_json(dumps({"runs": records, "exit_code": exit_code}))
        return exit_code
    for stopped, trial_count in rows:
        stopped_run = stopped.run
        if not stopped.has_ended:
            echo_err(
                f"proctor: error: Run {stopped_run.id} received the request to stop, but "
                f"{stopped.owner.title} still runs it after {MAX_STOP_WAIT_S:.0f} s."
            )
            continue
        where = f" --store {shlex.quote(store)}" if store else ""
        how = f" Continue with: proctor run --resume={stopped_run.id}{where}"
        verb, how = ("Finished", "") if stopped_run.status == "finished" else ("Stopped", how)
        show([f"{verb} {stopped_run.id}: {trial_count:,} of {stopped_run.planned:,} trials are stored.{how}"])
    return exit_code


@command.command("export", cls=ConfigDefaultsCommand)
@click.argument("run", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="File to write. The ending sets the format: .html .md .json .jsonl .csv .parquet .xml.",
)
@reveal_option
@store_option
def export(run: tuple[str, ...], output: str, reveal: bool, store: str | None) -> None:
    """Write all trials of each RUN to a file."""
    check_report_paths([output])
    with open_store(store, must_exist=True) as run_store:
        runs = [build_report(run_store, run_store.run(word), reveal=reveal) for word in run]
        runs = [record_report_access(run_store, report, reveal=reveal) for report in runs]
        write_report(output, runs)
        total = sum(report.tally.all.total for report in runs)
        echo(f"{total:,} trials written to {output}", err=True)


@command.command("labels", cls=ConfigDefaultsCommand)
@click.argument("run")
@click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, which must end in .jsonl, instead of stdout."
)
@reveal_option
@store_option
def export_labels(run: str, output: str | None, reveal: bool, store: str | None) -> None:
    """Export the human labels of RUN's answers.

    The output is JSON Lines for `proctor certify --judge T --labels FILE`. Labels are kept when their run is
    deleted; give the whole id of the run then. Exporting labels of held-out answers counts as a holdout
    access, and their notes are hidden.
    """
    if output is not None:
        check_outputs([output], endings=(".jsonl",))
    with open_store(store, must_exist=True) as run_store:
        stored_run = _run_with_labels(run_store, run)
        labels = run_store.labels(run if stored_run is None else stored_run.id)
        if not labels:
            raise no_labels_error(stored_run)
        lines = export_label_lines(run_store, stored_run, labels, reveal=reveal)
        if output is None:
            for line in lines:
                echo(json_text(line))
            return
        write_output(output, "".join(f"{line}\n" for line in lines))
    echo(f"{pluralize(len(labels), 'label')} written to {output}", err=True)


def _run_with_labels(store: Store, word: str) -> Run | None:
    """Returns the run that a word names; None if it was deleted and only its labels remain."""
    try:
        return store.run(word)
    except StoreError:
        if word not in store.count_labelled_answers():
            raise
        return None


@command.command("import")
@click.argument("bundle")
@bundle_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def import_run(bundle: str, as_json: bool, store: str | None, **options: Any) -> None:
    """Verify BUNDLE, and store its run, suite and trials.

    The run keeps its id. It gets a tag that shows how the bundle is signed: imported-trusted,
    imported-unknown or imported-unsigned. No request is sent to its targets. A public bundle cannot be
    imported.
    """
    from proctor.services.bundles.import_bundle import import_bundle
    from proctor.services.bundles.import_records import describe_signatures

    check_bundle_exists(bundle)
    import_options = get_import_options(options)
    with open_store(store, writes=True) as run_store:
        result = import_bundle(run_store, Path(bundle), import_options, echo_err)
    run, signature_text = result.run, describe_signatures(result.verification)
    if as_json:
        row = {
            "run": run.id,
            "new": result.is_new,
            "standing": result.verification.standing,
            "tags": list(run.tags),
        }
        echo_json(dumps({**row, "suite": run.suite.name, "suite_version": run.suite.version, "exit_code": 0}))
        return
    what = f"{run.id}: {run.planned:,} trials of {run.suite.title} on {run.target_title}"
    outcome = "Imported" if result.is_new else "This run is already in the store. Nothing was changed"
    show([one_line(f"{outcome}. {what}"), f"The bundle is {signature_text}"])


@command.command("tag")
@click.argument("run")
@click.argument("tag", nargs=-1)
@click.option("--remove", is_flag=True, help="Remove the tags.")
@store_option
def tag_run(run: str, tag: tuple[str, ...], remove: bool, store: str | None) -> None:
    """Add each TAG to RUN, or print the tags of RUN.

    You can then use the tag to name the run, as in `proctor compare baseline last`.
    """
    for name in () if remove else tag:
        if name == "last" or not name.isprintable() or not name.strip() or name != name.strip():
            why = (
                "this word already names the newest run"
                if name == "last"
                else "it is empty or has spaces around it"
            )
            raise UsageError(f"{name!r} cannot be used as a tag: {why}.")
    with open_store(store, must_exist=True, writes=bool(tag)) as run_store:
        stored_run = run_store.run(run)
        tags = set(stored_run.tags) - set(tag) if remove else set(stored_run.tags) | set(tag)
        if tag:
            run_store.update_run(replace(stored_run, tags=tuple(sorted(tags))))
        show([f"{stored_run.id}: {', '.join(sorted(tags)) or 'no tags'}"])
        for name in () if remove else tag:
            if (newest_id := run_store.run(name).id) != stored_run.id:
                echo(f"proctor: warning: {name!r} still refers to another run, {newest_id}.", err=True)


@command.command("delete")
@click.argument("run", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
def delete(run: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete each RUN and its trials. This cannot be undone."""
    with open_store(store, must_exist=True, writes=True) as run_store:
        for word in run:
            stored_run = run_store.run(word)
            if not yes:
                table = listing.list_table([summarize_run(run_store, stored_run)])
                confirm_deletion(list(render_terminal([table]))[1])
            label_count = run_store.count_labelled_answers().get(stored_run.id, 0)
            run_store.delete_run(stored_run.id)
            echo(f"Deleted {stored_run.id}.", err=True)
            if label_count:
                echo(
                    f"Its labels for {pluralize(label_count, 'answer')} are kept. `proctor runs labels "
                    f"{stored_run.id}` exports them, and they apply again if you import the run from a "
                    "bundle.",
                    err=True,
                )
