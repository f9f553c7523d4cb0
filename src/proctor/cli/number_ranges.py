"""Numbers within a range as options take them: any, or a share that may be written as a percentage."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import click

from proctor.errors import UsageError
from proctor.services.runs.config import parse_share


class NumberRange(click.FloatRange):
    """A number within a range; `nan` is refused, which click accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts a value to a number; fails if it is none."""
        try:
            number = float(value)
        except ValueError:
            number = nan
        if isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return super().convert(number, param, ctx)


class ShareRange(NumberRange):
    """A share within a range, which may be written as a percentage: `0.05`, `5%` or `5pp`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts a value to a share; fails if it is none, and suggests one for a number such as 90."""
        try:
            share = parse_share(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return super().convert(share, param, ctx)
