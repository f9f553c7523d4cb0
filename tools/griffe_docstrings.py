"""An extension of griffe for the page on Python, which is made of docstrings.

Docstrings call their examples `Example:`, which griffe knows as `Examples:` only. Fields of records have
their descriptions in `Annotated[…, about("…")]`, which becomes the docstring of the field.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

_HEADING = re.compile(r"^Example:$", re.MULTILINE)


class PythonPage(griffe.Extension):
    """Makes `Example:` a section of examples, and descriptions of fields their docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the heading in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Takes the description of a field out of its annotation."""
        annotation = attr.annotation
        if not isinstance(annotation, griffe.ExprSubscript) or str(annotation.left) != "Annotated":
            return
        inner = annotation.slice
        if not isinstance(inner, griffe.ExprTuple):
            return
        kind, *others = inner.elements
        attr.annotation = kind
        for other in others:
            if isinstance(other, griffe.ExprCall) and str(other.function) == "about" and not attr.docstring:
                text = ast.literal_eval(str(other.arguments[0]))
                attr.docstring = griffe.Docstring(text, parent=attr)
