"""Models on this machine: the embedded chat model, any GGUF file, and embeddings.

In: a prompt or a text. Out: an `Output`, or a vector. Start with `target.py`.
"""
