"""Runs of agents: records of turns and costs, and statistics over them.

In: rows of runs. Out: `AgentRun` records and their summary. Start with `records.py`.
"""
