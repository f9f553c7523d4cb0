"""`proctor certify --target`: runs the checks on a target, and prints and writes the result."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from typing import Any

from proctor import __version__
from proctor.cli.certify.output import Certificate, check_url, reach_of, write_certificate
from proctor.cli.echo import echo_err
from proctor.cli.output_files import check_outputs
from proctor.cli.progress import Progress
from proctor.conformance import Conformance, checks, conformance
from proctor.conformance.checks import LATENCY_S
from proctor.errors import ExitCode
from proctor.model import Params, TargetSpec
from proctor.reports.certificates import of_target
from proctor.reports.certificates.of_target import CheckedTarget
from proctor.safe_text import one_line
from proctor.services.progress_lines import telling
from proctor.services.runs.planning.target_names import Names
from proctor.services.targets.conformance import replies_of


def certify_target(**options: Any) -> int:
    """Runs all checks on a target, prints the result, and writes it.

    Args:
        **options: the parameters of the command.
    """
    check_outputs(options["outputs"], charts=False)
    check_url(options["url"])
    spec = Names(os.environ).spec(options["target"], Params(), judged=False)
    # Random, so that no model can be trained on it; printed, so that everybody can repeat it.
    seed = options["seed"] if options["seed"] is not None else int.from_bytes(os.urandom(4))
    longest_s = options["max_latency_s"] or LATENCY_S
    with redirect_stdout(sys.stderr):  # output of user-defined functions must not mix with ours
        report = asyncio.run(_check(spec, seed, longest_s, options))
    write_certificate(
        Certificate(
            lines=lambda: of_target.lines(report),
            data=of_target.data(report),
            markdown=lambda badge, _: of_target.markdown(report, badge),
            badge=lambda link: of_target.badge_of(report, link),
        ),
        options["outputs"],
        as_json=options["as_json"],
        url=options["url"],
        code=_exit_code(report.found),
    )
    return _exit_code(report.found)


def _exit_code(result: Conformance) -> ExitCode:
    if not result.is_measured:
        return ExitCode.NOT_MEASURED
    return ExitCode.OK if result.is_certified else ExitCode.FAILED


async def _check(spec: TargetSpec, seed: int, longest_s: float, options: dict[str, Any]) -> CheckedTarget:
    progress = Progress(quiet=False, write_line=lambda _line: None)
    targets = reach_of(options, progress)
    planned_checks = checks(seed, longest_s=longest_s)
    at = datetime.now(UTC)
    calls = sum(len(check.questions) for check in planned_checks)
    echo_err(f"Asking {one_line(spec.name)} {calls} questions in {len(planned_checks)} checks.")
    try:
        replies = await replies_of(targets, spec, planned_checks, progress=telling(echo_err, "checks done"))
    finally:
        await targets.aclose()
        progress.close()
    return CheckedTarget(
        target=spec,
        found=conformance(planned_checks, replies),
        seed=seed,
        longest_s=longest_s,
        at=at,
        proctor=__version__,
    )
