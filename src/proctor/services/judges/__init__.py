"""Judges beside human labels.

In: labels and the judgments of a run. Out: agreement, and answers to review. Start with `calibrate.py`.
"""
