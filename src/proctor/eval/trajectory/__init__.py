"""`Trajectory`: iterations of a search loop and how the best value grew.

In: rows of iterations. Out: tables, charts and statistics. Start with `trajectory.py`.
"""
