"""Targets over HTTP, a package for each provider: OpenAI and services like it, Anthropic, Google, Amazon.

In: a prompt. Out: an `Output` with usage, or an error. `http.py` sends requests for all of them.
"""
