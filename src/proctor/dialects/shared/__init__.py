"""What several dialects need: JSON Lines, YAML, CSV, signatures of formats, and reports of losses.

In: text. Out: rows, nodes or problems with line numbers.
Start reading with `jsonl.py`, which turns lines into checked fields; `yaml_files.py` does so for YAML.
"""
