"""What `proctor certify` prints and writes, for a run, a target and a judge.

In: the options of `commands/certify.py`. Out: a certificate, a badge and the summary on the terminal.
`run.py`, `target.py` and `judge.py` are the three kinds of certificate; `output.py` writes the files of all.
"""
