"""A request to planned runs.

In: a `RunRequest`. Out: runs with their suite, target, judges and trials, each new, resumed, retried or
regraded. Start with `jobs.py`.
"""
