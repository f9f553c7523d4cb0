"""Graders that may take long, run in processes that can be killed.

In: a grader and its input. Out: its result, or UNSCORED with the limit that it passed.
`isolated_grading.py` decides where a grader runs, `worker_pool.py` keeps the processes,
`worker.py` is the program that they run.
Start reading with `isolated_grading.py`.
"""
