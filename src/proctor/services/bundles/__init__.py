"""Bundles: runs as signed files that others can check.

In: a finished run of a store, or a bundle. Out: a bundle, or the result of checking one.
Of a stored run: `attest.py` writes it, `prove.py` writes one trial of it, `countersign.py` adds a signature.
Of a bundle: `verify.py` checks it (scores in `regrade.py`), `certify.py`, `import_bundle.py`, `replay.py`.
Start reading with `attest.py` and `verify.py`.
"""
