"""`proctor compare`: compares runs case by case, with a gate for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from proctor.cli.echo import echo_err
from proctor.cli.number_ranges import ShareRange
from proctor.cli.options import cluster_option, open_store, store_option
from proctor.cli.output_files import check_outputs, draw_svg, file_ending, output_option, print_and_write
from proctor.safe_text import one_line

if TYPE_CHECKING:
    from proctor.comparison.gate import GateRule
    from proctor.comparison.outcomes import RunOutcomes
    from proctor.reports.comparison.report import ComparisonReport


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="BASELINE CANDIDATE... | GROUP")
@click.option(
    "--by",
    type=click.Choice(["category", "tag", "prompt"]),
    default="category",
    show_default=True,
    help="How two runs are broken down. For a group with several prompts, `prompt` compares the "
    "targets for each prompt.",
)
@click.option(
    "--split",
    type=click.Choice(["dev", "holdout", "all"]),
    default="all",
    show_default=True,
    help="Which cases to compare.",
)
@click.option(
    "--by-case-digest",
    is_flag=True,
    help="Pair cases with the same input and grading, even if their suites or ids differ.",
)
@cluster_option
@click.option(
    "--gate",
    is_flag=True,
    help="Exit 1 if the candidate is significantly worse. Implied by the next four options.",
)
@click.option(
    "--max-regression",
    type=ShareRange(0, 1),
    metavar="X",
    help="Exit 1 if the whole 95 % interval of the difference is below -X, such as 0.02 or "
    "2pp.  [default: 0]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 1 unless the whole 95 % interval is above -X. With X = 0, the candidate must be better.",
)
@click.option(
    "--allow-errors",
    type=click.IntRange(0),
    metavar="N",
    help="Tolerate up to N unmeasured pairs. Exit 3 if there are more, or if they could change the result.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Apply the gate to the trials that both runs have. Otherwise, exit "
    "3 if one run has trials that the other lacks.",
)
@click.option(
    "--flips",
    type=click.IntRange(0),
    metavar="N",
    default=10,
    show_default=True,
    help="List at most N flips of each kind.",
)
@output_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all flips.")
@store_option
def command(runs: tuple[str, ...], store: str | None, **options: Any) -> int:
    """Compare two or more runs, case by case.

    A run is an id, `last` or a tag, as in `proctor runs`. For two runs, you see the difference between their
    pass rates with its 95 % interval and a significance test, the cases that flipped, and the differences
    between their prompts. Three or more runs are ranked, and compared with the first. A single argument names
    a group (the runs of one suite that one command made), or a run of it. For a group with several prompts
    and targets, you see which prompt is better over all targets, which target is better over all prompts, and
    whether one depends on the other. An edited case is still paired if its id and checks are the same.

    \b
    proctor runs tag last baseline
    proctor compare baseline last
    proctor compare baseline last --max-regression 0.02 -o compare.md -o compare.svg

    Exit codes: 0 if runs were compared and the gate, if any, holds; 1 if the gate does not hold; 3 if nothing
    was measured, or if the gate cannot be decided because pairs are unmeasured, a run is unfinished, or a run
    lacks trials that the other has; 4 if the suites have no case in common; 5 if the runs have no trial in
    common.
    """  # noqa: D301  # click wants the character \b itself
    outputs: tuple[str, ...] = options["output"]
    check_outputs(outputs)
    rule = _parse_rule(options)
    report = _compare(runs, store, rule, options)
    for warning in report.warnings:
        echo_err(f"proctor: warning: {one_line(warning)}")
    from proctor.reports.comparison.json import render as render_json
    from proctor.reports.comparison.report import document_for
    from proctor.reports.document import render_terminal

    print_and_write(
        outputs,
        render_file=lambda path: _render_file(path, report),
        render_text=lambda: render_terminal(document_for(report, options["flips"])),
        render_json=(lambda: render_json(report)) if options["as_json"] else None,
    )
    return report.exit_code


def _parse_rule(options: dict[str, Any]) -> GateRule | None:
    """Returns the gate's rule; None without a gate."""
    from proctor.comparison.gate import GateRule

    margin, allow_errors, partial = options["max_regression"], options["allow_errors"], options["partial"]
    if not (options["gate"] or options["strict"] or partial) and margin is None and allow_errors is None:
        return None
    return GateRule(
        max_regression=margin or 0.0,
        strict=options["strict"],
        allow_errors=allow_errors or 0,
        partial=partial,
    )


def _compare(
    words: Sequence[str], store: str | None, rule: GateRule | None, options: dict[str, Any]
) -> ComparisonReport:
    from proctor.services.analysis import compare as comparing
    from proctor.services.progress_lines import progress_reporter

    split, by_digest = options["split"], options["by_case_digest"]
    with open_store(store, must_exist=True) as run_store:
        runs = comparing.resolve_runs(run_store, words)
        comparing.check_comparable(run_store, runs, by_digest=by_digest)
        facts: list[RunOutcomes] = comparing.load_outcomes(
            run_store,
            runs,
            by_digest=by_digest,
            cluster=options["cluster"],
            on_progress=progress_reporter(echo_err, "trials read"),
        )
        report = comparing.compare_pairwise(facts, split=split, by=options["by"])
        looks = comparing.record_comparison_access(run_store, facts, split) if report.shows_rates else None
        return replace(report, rule=rule, looks=looks, judges=comparing.describe_judges(run_store, facts))


def _render_file(path: str, report: ComparisonReport) -> str:
    """Returns a comparison in the format of the file's ending."""
    from proctor.reports.comparison import chart, json
    from proctor.reports.comparison.report import document_for
    from proctor.reports.document import render_markdown

    ending = file_ending(path)
    if ending == ".svg":
        return draw_svg(lambda: chart.draw_chart(report))
    return json.render(report) if ending == ".json" else "".join(render_markdown(document_for(report)))
