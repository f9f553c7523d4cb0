"""Dialects fieldkit and fieldkit_qa: graded prompts and question files of fieldkit.

In: JSON Lines. Out: a `Suite`. `prompts.py` reads graded prompts, `questions.py` question files.
"""
