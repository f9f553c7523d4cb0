"""Numbers within a range as options take them: any, or a share that may be written as a percentage."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import click

from proctor.validation import parse_percentage


class NumberRange(click.FloatRange):
    """A number within a range; `nan` is refused, which click accepts."""

    kind = "a number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts a value to a number; fails if it is none."""
        try:
            number = float(value)
        except ValueError:
            number = nan
        if isnan(number):
            self.fail(f"{value!r} is not {self.kind}.", param, ctx)
        return super().convert(number, param, ctx)


class ShareRange(NumberRange):
    """A share within a range, which may be written as a percentage: `0.05`, `5%` or `5pp`."""

    kind = "a share. Give a number such as 0.05, or a percentage such as 5%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts a value to a share; fails if it is none, and suggests one for a number such as 90."""
        percentage = parse_percentage(str(value))
        if percentage is not None:
            return super().convert(percentage, param, ctx)
        if parse_percentage(f"{value}%") is not None and 1 < float(value) <= 100:
            self.fail(f"{value} is more than 1. Did you mean {float(value) / 100:g} or {value}%?", param, ctx)
        return super().convert(value, param, ctx)
