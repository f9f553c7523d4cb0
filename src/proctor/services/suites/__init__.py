"""Finds, loads, validates, converts, splits, saves and uploads suites.

In: the SUITE argument of a command, or the files of an upload. Out: a `Suite` with digest and problems.
To load one: `suite_argument.py` (argument to files), `file_source.py` (what a suite may read), `load.py`.
Then: `save_and_open.py` (versions in a store), `holdout_split.py`, `validate.py`, `convert.py`.
From a browser: `upload.py`, `zip_upload.py` and `save_upload.py`. Start reading with `load.py`.
"""
