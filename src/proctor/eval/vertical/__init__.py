"""`VerticalBench`: runs and scores questions of finance and law.

In: files of questions, which `rows.py` reads. Out: scores with intervals, in `run.py`. Start with `bench.py`.
"""

from proctor.eval.vertical.bench import PATENT_STRATEGIST_SCORER_FNS, VerticalBench
from proctor.eval.vertical.rows import HintedQA, VerticalQA
from proctor.eval.vertical.run import VerticalRun

__all__ = ["PATENT_STRATEGIST_SCORER_FNS", "HintedQA", "VerticalBench", "VerticalQA", "VerticalRun"]
