"""A request to planned runs.

In: a `Request` and a `PlanningContext`. Out: planned runs, each with its suite, target, judges and selected
cases. Start with `plan_runs.py`, which calls `plan_fresh`, `plan_resume`, `plan_retry` or `plan_regrade`,
each in the file of that name; none of them calls another. `unfinished_runs.py` is their look-up, and
`judge_choice.py` and `target_names.py` are look-ups for others too.
"""
