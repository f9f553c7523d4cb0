"""The parts of a bundle and how they are checked. Pure.

In: a run's records, or the bytes of a bundle's files. Out: canonical lines, Merkle roots, a statement in an
envelope; or a `BundleDefect`. `statement.py` says what is claimed, `records.py` how cases and trials are
written, `merkle.py` and `inclusion_proofs.py` how they are proved; `check_statement.py` and
`check_records.py` check all of it. Start reading with `statement.py`.
"""
