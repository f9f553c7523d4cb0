"""Gemini, and Claude on Vertex AI. In: prompts. Out: JSON requests, and answers.

`vertex.py` is Google Cloud's address, and `credentials.py` its access tokens. Start with `gemini.py`.
"""
