"""Runs graders that may take long in processes that can be killed.

In: a grader and its input. Out: its result, or UNSCORED with the limit that it exceeded.
`isolated_grading.py` decides where a grader runs, `worker_pool.py` keeps the processes,
`worker.py` is the program that they run.
Start reading with `isolated_grading.py`.
"""
