"""Two or more runs, case by case: what changed, and what that shows. Pure.

`facts` are what is kept of a run, `pairing` brings two runs together, `differences` has the statistics,
`comparing` all that is told of two runs, `ranking` of several; `gating` is the word that a build asks for,
and `doubts` why two runs may not be comparable.
"""
