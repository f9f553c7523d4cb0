"""The wiring: the only package that brings the doors together.

`proctor.services.runs.execution.session` is the straight line.
"""
