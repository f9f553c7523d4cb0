"""What the commands that certify share: a certificate in all of its forms, and where its badge leads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from proctor.cli.echo import say_json
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
    """Is given the Markdown of the badge, if one is written, and where the bundle is, if there is one."""
    badge: Callable[[str | None], Badge]
    """Is given where it leads."""


def reach_of(given: Mapping[str, Any], progress: Progress) -> Reach:
    """What asks a target or a judge, by the flags of the command.

    Args:
        given: the parameters of the command.
        progress: told of retries and downloads.

    Raises:
        UsageError: a file of prices cannot be read.
    """
    from proctor.engines.retries import Patience
    from proctor.services.runs.execution.target_pool import Reach, load_prices

    location = store_location(given["store"])
    return Reach(
        os.environ,
        concurrency=given["concurrency"],
        patience=Patience(timeout_s=given["timeout_s"], retries=given["retries"]),
        prices=load_prices(os.environ, location.folder),
        notify=progress.tell,
        progress=progress.fetching,
        open_cache=location.open_answer_cache,
        max_answer_bytes=given["max_answer_bytes"],
    )


def check_outside(outputs: Sequence[str], bundle: Path) -> None:
    """Refuse files that would become part of a bundle, which then is none any more.

    Raises:
        UsageError: there is one.
    """
    for path in outputs:
        if Path(path).resolve().is_relative_to(bundle.resolve()):
            raise UsageError(
                f"{path!r} is inside the bundle, where no other file may be. Name another place."
            )


def check_url(url: str | None) -> None:
    """Refuse a link that does more than lead somewhere, such as one that begins with `javascript:`.

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


def give(
    certificate: Certificate,
    outputs: Sequence[str],
    *,
    as_json: bool,
    url: str | None,
    bundle: Path | None = None,
    code: ExitCode = ExitCode.OK,
) -> None:
    """Print a certificate, and write each file in the form that its ending says; older files are replaced.

    Args:
        certificate: what is told.
        outputs: the files.
        as_json: whether the data are printed, and not the lines.
        url: where badges lead; else to the bundle.
        bundle: where the bundle is, if there is one.
        code: what the command ends with.

    Raises:
        UsageError: a file cannot be written.
    """
    if as_json:
        say_json(formatting.as_json({**certificate.data, "exit_code": int(code)}))
    else:
        show(certificate.lines())
    badge = next((path for path in outputs if ending_of(path) == ".svg"), None)
    for path in outputs:
        place = None if bundle is None else _from(path, bundle)
        link = url or (None if place is None else quote(place))
        ending = ending_of(path)
        if ending == ".json":
            text = formatting.as_json(certificate.data) + "\n"
        elif ending == ".svg":
            text = svg(certificate.badge(link))
        else:
            there = None if badge is None else quote(_from(path, Path(badge)))
            shown = None if there is None else picture(certificate.badge(link), there)
            text = "".join(certificate.markdown(shown, place))
        write_output(path, text)


def _from(path: str, other: Path) -> str:
    """The other path as seen from the folder of a file."""
    return Path(os.path.relpath(other, Path(path).absolute().parent)).as_posix()
