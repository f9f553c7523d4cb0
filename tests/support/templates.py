"""Templates that are compiled once in a process, however many environments tests make."""

from __future__ import annotations

from functools import partial

import pytest
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from proctor.reports import html_templates


class CompiledTemplates(BytecodeCache):
    """What Jinja2 made of each source."""

    def __init__(self) -> None:
        self.codes: dict[tuple[str, str], object] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Gives a bucket the code of its template, if it was compiled before."""
        bucket.code = self.codes.get((bucket.key, bucket.checksum))  # type: ignore[assignment]

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the code of a template."""
        self.codes[bucket.key, bucket.checksum] = bucket.code


def share_compiled() -> None:
    """Lets every environment for reports and pages that is made from now on share compiled templates."""
    environment = partial(Environment, bytecode_cache=CompiledTemplates())
    pytest.MonkeyPatch().setattr(html_templates, "Environment", environment)
