"""Compares two or more runs case by case. Pure.

In: trials of stored runs. Out: a `Comparison` of two runs, or a `Ranking` of several.
`outcomes` holds what a comparison keeps of a run, `pairing` matches the trials of two runs, `differences` has
the statistics, `compare` the comparison of two runs, `ranking` that of several, `gate` the exit code for a
build, and `comparability` the reasons why two runs may not be comparable. Start with `compare`.
"""
