"""Regular expressions that are compiled when they are first used, as most commands use few of them. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr, cast

if TYPE_CHECKING:
    from re import Pattern, RegexFlag


class _LazyPattern:
    """Has the methods of a compiled pattern; each is an attribute of its own after the first call."""

    def __init__(self, *source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)  # `re` keeps what it compiled
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: RegexFlag | int = 0) -> Pattern[AnyStr]:
    """Returns a pattern to call the methods of; functions of `re` do not take it.

    Compiling one takes 0.1 ms, which each command would spend on patterns that it does not use.
    """
    return cast("Pattern[AnyStr]", _LazyPattern(pattern, flags))
