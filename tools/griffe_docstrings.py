"""An extension of griffe for the page on Python, which is made of docstrings.

Fields of records have their descriptions in `Annotated[…, about("…")]`, which becomes their docstring.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe


class PythonPage(griffe.Extension):
    """Makes the descriptions of fields their docstrings."""

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
