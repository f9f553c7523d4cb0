"""Targets that are programs: command lines, agents and programs of a suite.

In: a prompt as arguments, stdin and variables. Out: an `Output` read from what the program wrote.
`subprocesses.py` starts and kills programs for all of them. Start with `command.py`.
"""
