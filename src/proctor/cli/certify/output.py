"""Prints and writes certificates of all kinds: lines, JSON, Markdown and badge; and opens their targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from proctor.cli.echo import echo_json
from proctor.cli.options import show, store_location
from proctor.cli.output_files import ending_of, write_output
from proctor.errors import ExitCode, UsageError
from proctor.reports import formatting
from proctor.reports.certificates.badge import Badge, picture, svg

if TYPE_CHECKING:
    from proctor.cli.progress import Progress
    from proctor.services.runs.execution.target_pool import Reach


class Certificate(Struct, frozen=True, kw_only=True):
    """One certificate in all of its forms."""

    lines: Callable[[], Iterable[str]]
    """For a terminal."""
    data: Mapping[str, Any]
    markdown: Callable[[str | None, str | None], Iterable[str]]
    """Takes the Markdown of the badge, if one is written, and the path of the bundle, if there is one."""
    badge: Callable[[str | None], Badge]
    """Takes the address that it links to."""


def reach_of(options: Mapping[str, Any], progress: Progress) -> Reach:
    """Returns what opens a target or a judge, with the command's flags.

    Args:
        options: the parameters of the command.
        progress: shows retries and downloads.

    Raises:
        UsageError: a file of prices cannot be read.
    """
    from proctor.engines.retries import Patience
    from proctor.services.runs.execution.target_pool import Reach, load_prices

    location = store_location(options["store"])
    return Reach(
        os.environ,
        concurrency=options["concurrency"],
        patience=Patience(timeout_s=options["timeout_s"], retries=options["retries"]),
        prices=load_prices(os.environ, location.folder),
        notify=progress.tell,
        progress=progress.fetching,
        open_cache=location.open_answer_cache,
        max_answer_bytes=options["max_answer_bytes"],
    )


def check_outside(outputs: Sequence[str], bundle: Path) -> None:
    """Refuses files that would become part of a bundle, which then is none any more.

    Raises:
        UsageError: there is one.
    """
    for path in outputs:
        if Path(path).resolve().is_relative_to(bundle.resolve()):
            raise UsageError(
                f"{path!r} is inside the bundle, where no other file may be. Name another place."
            )


def check_url(url: str | None) -> None:
    """Refuses a link that does more than lead somewhere, such as one that begins with `javascript:`.

    Raises:
        UsageError: it is neither an address of http or https, nor a path.
    """
    if url is None:
        return
    try:
        scheme = urlsplit(url.strip()).scheme
    except ValueError:
        scheme = "none"
    # What cannot be seen is left out of a badge, and could hide a scheme from `urlsplit` until then.
    if scheme not in ("http", "https", "") or not url.strip() or not url.isprintable():
        raise UsageError(f"--url {url!r}: give an address that begins with https:// or http://, or a path.")


def write_certificate(
    certificate: Certificate,
    outputs: Sequence[str],
    *,
    as_json: bool,
    url: str | None,
    bundle: Path | None = None,
    code: ExitCode = ExitCode.OK,
) -> None:
    """Prints a certificate, and writes each file in the form that its ending says; older files are replaced.

    Args:
        certificate: the certificate.
        outputs: the files.
        as_json: whether the data are printed, and not the lines.
        url: where badges lead; else to the bundle.
        bundle: where the bundle is, if there is one.
        code: what the command ends with.

    Raises:
        UsageError: a file cannot be written.
    """
    if as_json:
        echo_json(formatting.as_json({**certificate.data, "exit_code": int(code)}))
    else:
        show(certificate.lines())
    badge = next((path for path in outputs if ending_of(path) == ".svg"), None)
    for path in outputs:
        bundle_path = None if bundle is None else _relative_path(path, bundle)
        link = url or (None if bundle_path is None else quote(bundle_path))
        ending = ending_of(path)
        if ending == ".json":
            text = formatting.as_json(certificate.data) + "\n"
        elif ending == ".svg":
            text = svg(certificate.badge(link))
        else:
            badge_link = None if badge is None else quote(_relative_path(path, Path(badge)))
            badge_markdown = None if badge_link is None else picture(certificate.badge(link), badge_link)
            text = "".join(certificate.markdown(badge_markdown, bundle_path))
        write_output(path, text)


def _relative_path(path: str, other: Path) -> str:
    """Returns the other path relative to the folder of a file."""
    return Path(os.path.relpath(other, Path(path).absolute().parent)).as_posix()
