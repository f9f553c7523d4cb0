"""Prints and writes certificates as text, JSON, Markdown and badge, and opens their targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, to_builtins

from proctor.cli.options import store_location
from proctor.cli.output_files import file_ending, print_and_write
from proctor.errors import ExitCode, UsageError
from proctor.reports import formatting
from proctor.reports.certificates.badge import Badge, badge_image, render_badge
from proctor.reports.document import Block, Image, render_markdown, render_terminal

if TYPE_CHECKING:
    from proctor.services.progress import Progress
    from proctor.services.runs.execution.target_pool import TargetPool


class CertificateForms(Struct, frozen=True, kw_only=True):
    """A certificate in all formats."""

    document: Iterable[Block]
    """The document for a terminal."""
    data: Any
    """A record or plain data, for JSON."""
    written: Callable[[Image | None, str | None], Iterable[Block]]
    """Returns the document for a file, given the badge and the path of the bundle; either may be None."""
    badge: Callable[[str | None], Badge]
    """Takes the address that it links to."""


def make_target_pool(options: Mapping[str, Any], progress: Progress) -> TargetPool:
    """Returns a target pool with the settings of the command's flags.

    Args:
        options: the parameters of the command.
        progress: shows retries and downloads.

    Raises:
        UsageError: a file of prices cannot be read.
    """
    from proctor.engines.retries import RetryPolicy
    from proctor.services.runs.execution.target_pool import TargetPool, load_prices

    location = store_location(options["store"])
    return TargetPool(
        os.environ,
        concurrency=options["concurrency"],
        retry_policy=RetryPolicy(timeout_s=options["timeout_s"], retries=options["retries"]),
        prices=load_prices(os.environ, location.folder),
        notify=progress.notify,
        progress=progress.show_download,
        open_cache=location.open_answer_cache,
        max_answer_bytes=options["max_answer_bytes"],
    )


def check_outside_bundle(outputs: Sequence[str], bundle: Path) -> None:
    """Refuses output files inside a bundle, which would make it invalid.

    Raises:
        UsageError: there is one.
    """
    for path in outputs:
        if Path(path).resolve().is_relative_to(bundle.resolve()):
            raise UsageError(
                f"{path!r} is inside the bundle, which must not contain other files. Write to another place."
            )


def check_url(url: str | None) -> None:
    """Refuses links other than URLs and paths, such as `javascript:`.

    Raises:
        UsageError: it is neither an address of http or https, nor a path.
    """
    if url is None:
        return
    try:
        scheme = urlsplit(url.strip()).scheme
    except ValueError:
        scheme = "none"
    # Badges drop invisible characters, which could hide a scheme from `urlsplit`.
    if scheme not in ("http", "https", "") or not url.strip() or not url.isprintable():
        raise UsageError(
            f"--url is {url!r}. Give a path, or an address that begins with https:// or http://."
        )


def write_certificate(
    certificate: CertificateForms,
    outputs: Sequence[str],
    *,
    as_json: bool,
    url: str | None,
    bundle: Path | None = None,
    code: ExitCode = ExitCode.OK,
) -> None:
    """Prints a certificate and writes the output files in the format of their endings, replacing old ones.

    Args:
        certificate: the certificate.
        outputs: the files.
        as_json: print the data as JSON instead of the lines.
        url: the link target of badges; None for the bundle.
        bundle: the path of the bundle, if any.
        code: the exit code, for the JSON.

    Raises:
        UsageError: a file cannot be written.
    """
    badge = next((path for path in outputs if file_ending(path) == ".svg"), None)

    def render_file(path: str) -> str:
        ending = file_ending(path)
        if ending == ".json":
            return formatting.to_json(certificate.data) + "\n"
        bundle_path = None if bundle is None else _relative_path(path, bundle)
        link = url or (None if bundle_path is None else quote(bundle_path))
        if ending == ".svg":
            return render_badge(certificate.badge(link))
        image = (
            None
            if badge is None
            else badge_image(certificate.badge(link), quote(_relative_path(path, Path(badge))))
        )
        return "".join(render_markdown(certificate.written(image, bundle_path)))

    data = to_builtins(certificate.data) | {"exit_code": int(code)}
    print_and_write(
        outputs,
        render_file=render_file,
        render_text=lambda: render_terminal(certificate.document),
        render_json=(lambda: formatting.to_json(data)) if as_json else None,
    )


def _relative_path(path: str, other: Path) -> str:
    """Returns the other path relative to the folder of a file."""
    return Path(os.path.relpath(other, Path(path).absolute().parent)).as_posix()
