"""Suites to AgentV files.

In: a `Suite`. Out: the text of a YAML file and of the files beside it, and what AgentV cannot express.
Start with `suite.py`.
"""
