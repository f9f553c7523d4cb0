"""Plans the runs of a request.

In: a `Request` and a `PlanningContext`. Out: planned runs, each with its suite, target, judges and selected
cases. Start with `plan_runs.py`, which calls `plan_fresh`, `plan_resume`, `plan_retry` or `plan_regrade`,
each in the file of that name; none of them calls another. Look-ups are in `resumable_runs.py`, and in
`judge_choice.py` and `target_names.py`, which other packages use too.
"""
