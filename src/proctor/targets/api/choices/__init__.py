"""Scores the choices of a prompt. In: a prompt with choices. Out: their log-probabilities.

`scorer.py` opens one of two ways: `completions.py` echoes prompts, and `llamacpp.py` asks llama.cpp's server.
"""
