"""The folders in which agents work.

In: the workspace settings of a case. Out: a folder for each trial, and the changes that the trial made in it.
`environment.py` opens the workspaces of a run, `group.py` is one of them with its trials; `setup.py` fills it
(`copying.py`, `repositories.py`), `hooks.py` runs its programs, `snapshots.py` and `diffs.py` find changes.
Start reading with `environment.py`.
"""
