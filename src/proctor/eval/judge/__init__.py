"""`Judge`: grades answers by a rubric with a model.

In: a rubric, a prompt and an answer. Out: scores within the rubric's range.
`rubrics.py` loads rubrics, `replies.py` reads replies; start with `judge.py`.
"""
