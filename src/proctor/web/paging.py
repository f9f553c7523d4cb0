"""Cuts lists into the pages of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def slice_page(
    items: Sequence[T], key: Callable[[T], str], after: str, size: int
) -> tuple[Sequence[T], str, bool]:
    """Returns the items of one page, the key after which the next page begins, and whether one is before it.

    Args:
        items: all items, in order.
        key: returns the key of an item, by which addresses name it.
        after: the key of the last item of the previous page; the first page if there is no such item.
        size: the number of items on a page.
    """
    start = next((place for place, item in enumerate(items, 1) if key(item) == after), 0)
    page = items[start : start + size]
    return page, key(page[-1]) if start + size < len(items) else "", start > 0
