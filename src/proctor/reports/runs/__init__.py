"""Runs as text, JSON, JSON Lines, CSV, JUnit, Markdown and HTML.

In: a run with its trials and counts. Out: chunks of text. `serialize.py` has the rows that most forms
share; each form is one file, named in the table `REPORTS`.
"""
