"""The commands of `proctor`, one file each, named as the command is.

In: what the user typed, parsed by click. Out: lines on the terminal, files, an exit code.
A command reads its options, calls one service and prints the report; it decides nothing itself.
`proctor.cli.main` has the table of commands. Start with `run.py`.
"""
