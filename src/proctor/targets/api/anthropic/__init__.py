"""Anthropic's Messages API, and what Claude models take wherever they run, in `claude.py`.

Start with `messages_api.py`.
"""
