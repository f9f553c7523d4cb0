"""Anthropic's Messages API. In: prompts. Out: JSON requests, and answers.

`claude.py` has what Claude models take wherever they run. Start with `messages_api.py`.
"""
