"""Targets over HTTP: OpenAI and what speaks like it, Anthropic, Google, Azure.

In: a prompt. Out: an `Output` with usage, or an error. `http.py` sends requests for all of them.
"""
