"""Runs as text, JSON, JSON Lines, CSV, JUnit, Markdown and HTML.

In: a run with its trials and counts. Out: chunks of text. `serialize.py` has the rows that most formats
share; each format is one module, registered in the table `REPORTS`.
"""
