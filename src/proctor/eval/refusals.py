"""Whether an answer declines or does not know. A heuristic over wording.

The catalogues are those of the graders `refusal` and `hedges`. Everything here is a constant or a pure
function, so any number of threads may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, SupportsIndex, overload

from proctor.graders.lexicons.matcher import find_refusal, pattern_sources

__all__ = ["ALL_HEDGE_PHRASES", "HEDGE_PHRASES", "REFUSAL_PATTERNS", "is_refusal"]


def is_refusal(text: str | None) -> bool:
    """Whether a text declines, says that it does not know, or that its sources do not hold the answer.

    English, German, French, Spanish, Italian and Chinese; the page on refusals says how often it is right.
    None, an empty text and one of white space only say nothing, and count as refusals.

    Raises:
        TypeError: the value is neither a text nor None.
    """
    if text is None:
        return True
    if not isinstance(text, str):
        raise TypeError(f"text must be a text or None, not {text!r}.")
    return not text.strip() or find_refusal(text, not_knowing=True) is not None


class _LazyPatterns(tuple[re.Pattern[str], ...]):
    """Patterns, each compiled at first use: compiling all takes too long for an import.

    Users extend the catalogue like any tuple, so it is one. The tuple holds the sources, and every access to
    its elements returns patterns.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> re.Pattern[str]: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[re.Pattern[str], ...]: ...
    def __getitem__(self, index: Any, /) -> Any:
        if isinstance(index, slice):
            return self._compile_all()[index]
        return _compile(super().__getitem__(index))

    def __iter__(self) -> Iterator[re.Pattern[str]]:
        return map(_compile, super().__iter__())

    def __reversed__(self) -> Iterator[re.Pattern[str]]:
        return reversed(self._compile_all())

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._compile_all()

    def __eq__(self, other: object) -> bool:
        return self._compile_all() == (other._compile_all() if isinstance(other, _LazyPatterns) else other)

    def __hash__(self) -> int:
        return hash(self._compile_all())

    def __add__(self, other: Any) -> Any:
        return self._compile_all() + tuple(other)

    def __radd__(self, other: Any) -> Any:
        return tuple(other) + self._compile_all()

    def __repr__(self) -> str:
        return repr(self._compile_all())

    def __reduce__(self) -> Any:
        return tuple, (list(self),)

    def index(self, *args: Any) -> int:
        """Returns the result for a tuple of patterns."""
        return self._compile_all().index(*args)

    def count(self, pattern: object) -> int:
        """Returns the result for a tuple of patterns."""
        return self._compile_all().count(pattern)

    def _compile_all(self) -> tuple[re.Pattern[str], ...]:
        return tuple(iter(self))


@cache
def _compile(source: Any) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


HEDGE_PHRASES: tuple[str, ...]
"""English phrases with which an answer admits that it does not know, is not sure or lacks the information."""
ALL_HEDGE_PHRASES: tuple[str, ...]
"""`HEDGE_PHRASES`, more English phrases, and those of the other five languages."""
REFUSAL_PATTERNS: tuple[re.Pattern[str], ...]
"""The whole catalogue, for `search` in unchanged texts: declining first, then not knowing.

`is_refusal` looks for the same words, but ignores quotes, code and conditions of a text.
"""


def __getattr__(name: str) -> Any:
    """Returns one of the three constants above, read from its files when it is first used (PEP 562)."""
    value: Any
    if name in {"HEDGE_PHRASES", "ALL_HEDGE_PHRASES"}:
        from proctor.graders.lexicons import hedging  # reads its file

        value = hedging.HEDGE_PHRASES if name == "HEDGE_PHRASES" else hedging.all_hedge_phrases()
    elif name == "REFUSAL_PATTERNS":
        value = _LazyPatterns(pattern_sources())  # type: ignore[arg-type]  # it holds sources, and gives patterns
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
