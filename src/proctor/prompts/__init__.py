"""Prompts as templates, which the cases of a run fill in. Pure.

In: a `PromptTemplate` and a case. Out: the messages that are sent for it. Start with `fill.py`.
`templates.py` fills in a text, `requirements.py` checks the variables of prompts against the cases of a
suite.
"""
