"""Lint rules for suites: one file for each family of rules, all pure. Start with `linter.py`."""
