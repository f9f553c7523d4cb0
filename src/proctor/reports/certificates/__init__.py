"""Certificates of a run, a target and a judge, and the badge.

In: a verified run, a checked target or a calibrated judge. Out: text, Markdown, JSON or SVG. One module
for each kind of certificate; `badge.py` draws the badge.
"""
