"""Gemini at Google's own address and on Vertex AI, where Claude models are called too.

Start with `gemini.py`.
"""
