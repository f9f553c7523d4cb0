"""The limit of open files of this process."""

from __future__ import annotations


def raise_open_file_limit(count: int) -> int:
    """Raises the limit to `count` files, as far as the system allows, and never lowers it.

    Returns:
        The current limit, or `count` if there is no limit.
    """
    try:
        import resource
    except ImportError:  # Windows, where there is no such limit
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited:
        return count
    allowed = count if hard == unlimited else min(count, hard)
    if soft >= allowed:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
