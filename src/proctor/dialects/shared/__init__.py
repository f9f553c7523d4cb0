"""What several dialects need: JSON Lines, YAML, CSV, signatures of formats, and lists of losses.

In: text. Out: rows, nodes or problems with line numbers. Nothing here knows a dialect.
"""
