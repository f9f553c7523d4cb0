"""Dialect pramana: published tiers as JSON Lines with an immutable hash.

In: JSON Lines and a manifest of hashes. Out: a `Suite`, and back.
`reader.py` reads tiers, `manifest.py` checks their hashes, `writer.py` writes them.
"""
