"""Certificates of a run, a target and a judge, and the badge.

In: what was certified. Out: text, Markdown, JSON or SVG. One file for each kind.
"""
