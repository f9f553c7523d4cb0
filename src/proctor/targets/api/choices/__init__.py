"""Scores the choices of a prompt. In: a prompt with choices. Out: their log-probabilities.

`scorer.py` opens one of two: `completions.py` echoes prompts, and `llamacpp.py` calls a llama.cpp server.
"""
