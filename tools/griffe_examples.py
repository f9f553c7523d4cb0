"""An extension of griffe, by which the site shows the examples in docstrings as code with its output.

Docstrings call the section `Example:`; griffe knows it as `Examples:` only.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_HEADING = re.compile(r"^Example:$", re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Makes `Example:` a section of examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the heading in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)
