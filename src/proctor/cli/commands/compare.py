"""`proctor compare`: compares runs case by case, with a gate for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from proctor.cli.echo import echo_err
from proctor.cli.options import NumberRange, cluster_option, open_store, store_option
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
    help="The parts of two runs; for a group of several prompts, `prompt` compares targets for each.",
)
@click.option("--split", type=click.Choice(["dev", "holdout", "all"]), default="all", show_default=True)
@click.option(
    "--by-case-digest",
    is_flag=True,
    help="Pair cases with the same input and grading, also across suites and under other ids.",
)
@cluster_option
@click.option("--gate", is_flag=True, help="Exit 1 when a regression is shown; the next four imply it.")
@click.option(
    "--max-regression",
    type=NumberRange(0, 1),
    metavar="X",
    help="Exit 1 when the whole 95 % interval is below -X; 0.02 is two percentage points.  [default: 0]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 1 unless the whole 95 % interval is above -X; with X = 0, unless the candidate is better.",
)
@click.option(
    "--allow-errors",
    type=click.IntRange(0),
    metavar="N",
    help="Exit 3 from N + 1 unmeasured pairs on, or if those could decide the gate.",
)
@click.option(
    "--partial", is_flag=True, help="Judge the trials that both runs have, though either has others: else 3."
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every flip.")
@store_option
def command(runs: tuple[str, ...], store: str | None, **options: Any) -> int:
    """Compare runs, pair by pair of the same case and repeat.

    A run is named as in `proctor runs`: by its id, `last` or a tag. Two runs give the difference in passed
    cases with its 95 % interval, its test, every case that flipped, and what differs in their prompts; more
    are ranked, and compared with the first. A single argument is a group, or a run of it: the runs of one
    suite that one command made. For several prompts and targets it says which prompt is better over all
    targets, which target over all prompts, and whether one depends on the other. An edited case is paired if
    its id and checks are the same.

    \b
    proctor runs tag last baseline
    proctor compare baseline last
    proctor compare baseline last --max-regression 0.02 -o compare.md -o compare.svg

    Exit codes: 0 when something was compared, or the gate held; 1 when it did not; 3 when nothing was
    measured, or with a gate a pair was not, unmeasured pairs could decide it, a run is not finished, or it
    lacks trials that the other has; 4 for runs of suites without a case in common; 5 when no trial of one is
    in the other.
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
