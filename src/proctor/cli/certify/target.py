"""`proctor certify --target`: runs the checks on a target, and prints and writes the result."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from proctor import __version__
from proctor.cli.certify.output import CertificateForms, check_url, make_target_pool, write_certificate
from proctor.cli.echo import echo_err
from proctor.cli.output_files import check_outputs
from proctor.conformance import INTERVAL_ROUNDS, Conformance, join_rounds, make_checks, score_checks
from proctor.conformance.checks import DEFAULT_MAX_LATENCY_S
from proctor.errors import ExitCode
from proctor.model import GateMode, Params, TargetSpec
from proctor.plurals import pluralize
from proctor.reports.certificates import target_certificate
from proctor.reports.certificates.target_certificate import TargetReport
from proctor.safe_text import one_line
from proctor.services.progress import Progress
from proctor.services.progress_lines import progress_reporter
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.targets.conformance import collect_replies


def certify_target(**options: Any) -> int:
    """Runs all checks on a target, prints the result, and writes it.

    Args:
        **options: the parameters of the command.
    """
    check_outputs(options["outputs"], charts=False)
    check_url(options["url"])
    spec = TargetNames(os.environ).get_spec(options["target"], Params(), judged=False)
    # Random, so that no model can be trained on it; printed, so that everybody can repeat it.
    seed = options["seed"] if options["seed"] is not None else int.from_bytes(os.urandom(4))
    longest_s = options["max_latency_s"] or DEFAULT_MAX_LATENCY_S
    with redirect_stdout(sys.stderr):  # output of user-defined functions must not mix with ours
        report = asyncio.run(_check_target(spec, seed, longest_s, options))
    write_certificate(
        CertificateForms(
            document=target_certificate.document_for(report),
            data=target_certificate.to_dict(report),
            written=lambda badge, _: target_certificate.document_for(report, badge),
            badge=lambda link: target_certificate.make_badge(report, link),
        ),
        options["outputs"],
        as_json=options["as_json"],
        url=options["url"],
        code=_exit_code(report.conformance),
    )
    return _exit_code(report.conformance)


def _exit_code(result: Conformance) -> ExitCode:
    if not result.is_measured:
        return ExitCode.NOT_MEASURED
    return ExitCode.OK if result.is_certified else ExitCode.FAILED


async def _check_target(
    spec: TargetSpec, seed: int, longest_s: float, options: dict[str, Any]
) -> TargetReport:
    progress = Progress(quiet=False, write_line=lambda _line: None)
    targets = make_target_pool(options, progress)
    gate_mode: GateMode = options["gate_mode"]
    round_count = options["rounds"] or (INTERVAL_ROUNDS if gate_mode == "interval" else 1)
    rounds = [make_checks(seed + number, longest_s=longest_s) for number in range(round_count)]
    planned_checks = list(chain(*rounds))
    at = datetime.now(UTC)
    calls = sum(len(check.questions) for check in planned_checks)
    echo_err(
        f"Running {len(planned_checks)} checks on {one_line(spec.name)} with {pluralize(calls, 'question')}."
    )
    try:
        replies = iter(
            await collect_replies(
                targets, spec, planned_checks, progress=progress_reporter(echo_err, "checks done")
            )
        )
    finally:
        await targets.aclose()
        progress.close()
    return TargetReport(
        target=spec,
        conformance=join_rounds(
            [score_checks(checks, list(islice(replies, len(checks)))) for checks in rounds], gate_mode
        ),
        seed=seed,
        max_latency_s=longest_s,
        at=at,
        proctor=__version__,
    )
