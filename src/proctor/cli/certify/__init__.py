"""`proctor certify`: certificates of a run, a target and a judge.

In: the options of `commands/certify.py`. Out: a certificate, a badge and the summary on the terminal.
`run.py`, `target.py` and `judge.py` make the three kinds; `output.py` prints and writes them.
Start reading with `run.py`.
"""
