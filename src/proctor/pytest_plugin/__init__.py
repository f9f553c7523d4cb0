"""The pytest plug-in: the fixtures `proctor` and `proctor_run`, the marker `proctor`, `--proctor-suite`.

In: options, markers and calls of tests. Out: runs by `proctor.run`, whose gates are the outcomes of tests.
`hooks.py` is all that pytest loads; it imports the rest when a test uses it. `session.py` has what the tests
of one session share, `markers.py` and `suite_items.py` decide which runs there are, `check.py` grades single
answers, `gate.py` says why a test fails. Start reading with `hooks.py`.
"""
