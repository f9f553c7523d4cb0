"""Targets that are programs: command lines, agents and programs of a suite.

In: a prompt as arguments, stdin and variables. Out: an `Output` read from what the program wrote.
`subprocesses.py` runs a program to its end for all of them, and `persistent_programs.py` keeps programs that
grade alive. Start with `command.py`.
"""
