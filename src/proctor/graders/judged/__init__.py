"""Graders that call a judge model.

In: a case, an answer and the judges of the run. Out: a result with the judges' reasons and their cost.
`prompt_sections.py` builds the prompt, `judge_call.py` sends it, `reply_parser.py` reads the reply,
`voting.py` counts several judges. Start with `judge_call.py`.
"""
