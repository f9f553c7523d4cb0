"""Dialect ai_tester: Markdown tests with placeholders, system prompts and evaluators.

In: Markdown files of a folder. Out: a `Suite`, and back.
`markdown.py` finds the sections, `reader.py` builds cases, `writer.py` writes them. Start with `reader.py`.
"""
