"""Targets over HTTP: OpenAI and compatible services, Anthropic, Google, Azure.

In: a prompt. Out: an `Output` with usage, or an error. `http.py` sends requests for all of them.
"""
