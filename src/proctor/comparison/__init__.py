"""Compares two or more runs case by case. Pure.

In: trials of stored runs. Out: a `Comparison` of two runs, or a `Ranking` of several.
`outcomes.py` holds what a comparison keeps of a run, in the columns of `outcome_table.py`. `pairing.py`
matches the trials of two runs, `differences.py` has the statistics, `latency.py` those of latencies,
`ranking.py` the ranking, `gate.py` the exit code for a build, `comparability.py` the reasons why two runs may
not be comparable, and `study_size.py` how many cases and repeats a comparison takes. Start reading with
`compare.py`.
"""
