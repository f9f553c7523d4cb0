"""`proctor certify --target`: a target put to its checks, and what that came to."""

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


def certify_target(**given: Any) -> int:
    """Ask a target all questions, print what came of it, and write it.

    Args:
        **given: the parameters of the command.
    """
    check_outputs(given["outputs"], charts=False)
    check_url(given["url"])
    spec = Names(os.environ).spec(given["target"], Params(), judged=False)
    # Drawn anew, so that nobody can train for it, and told, so that everybody can repeat it.
    seed = given["seed"] if given["seed"] is not None else int.from_bytes(os.urandom(4))
    longest_s = given["max_latency_s"] or LATENCY_S
    with redirect_stdout(sys.stderr):  # what a function of the user's prints is no part of a certificate
        checked = asyncio.run(_checked(spec, seed, longest_s, given))
    write_certificate(
        Certificate(
            lines=lambda: of_target.lines(checked),
            data=of_target.data(checked),
            markdown=lambda badge, _: of_target.markdown(checked, badge),
            badge=lambda link: of_target.badge_of(checked, link),
        ),
        given["outputs"],
        as_json=given["as_json"],
        url=given["url"],
        code=_exit_code(checked.found),
    )
    return _exit_code(checked.found)


def _exit_code(found: Conformance) -> ExitCode:
    if not found.is_measured:
        return ExitCode.NOT_MEASURED
    return ExitCode.OK if found.is_certified else ExitCode.FAILED


async def _checked(spec: TargetSpec, seed: int, longest_s: float, given: dict[str, Any]) -> CheckedTarget:
    progress = Progress(quiet=False, say=lambda _line: None)
    reach = reach_of(given, progress)
    asked = checks(seed, longest_s=longest_s)
    at = datetime.now(UTC)
    calls = sum(len(check.questions) for check in asked)
    echo_err(f"Asking {one_line(spec.name)} {calls} questions in {len(asked)} checks.")
    try:
        replies = await replies_of(reach, spec, asked, told=telling(echo_err, "checks done"))
    finally:
        await reach.aclose()
        progress.close()
    return CheckedTarget(
        target=spec,
        found=conformance(asked, replies),
        seed=seed,
        longest_s=longest_s,
        at=at,
        proctor=__version__,
    )
