"""Shell completion. In: the words of a command line so far. Out: what the next word may be, for a shell.

`shells.py` speaks with bash, zsh, fish and PowerShell, `parameters.py` says what each parameter takes, and
`candidates.py` finds it: suites, targets, runs, tags. Nothing is printed but candidates, nothing is written,
and no error is shown. Start with `parameters.py`.
"""
