"""Judges compared with human labels.

In: labels from a file (`label_files.py`) or a store (`label_export.py`), and their answers
(`labelled_answers.py`). Out: how far a judge agrees with people, as a `Calibration`.
`calibrate.py` calls the judge; `review.py` chooses the answers that a person labels next.
Start reading with `calibrate.py`.
"""
