"""`CodeSandbox`: runs programs that a model wrote, without network, files or other processes.

In: code and limits. Out: a result with output, exit code and the limit that ended it.
`sandbox.py` starts `supervisor.py`, which starts `child.py` behind `lockdown.py` and `seccomp.py`.
"""
