"""The command line, `proctor`.

In: the arguments that a user typed. Out: text on the terminal, files, an exit code.
`main.py` finds the command; each one is a file of `commands/`, imported when it is called.
`options.py` and `echo.py` have what commands share; `run_and_report.py` and `certify/` what some of them do.
Start reading with `main.py`.
"""
