"""The public names, for type checkers; see `__init__.py`."""

from proctor.codec import hash_suite as hash_suite
from proctor.errors import NothingSelected as NothingSelected
from proctor.errors import ProctorError as ProctorError
from proctor.errors import StoreError as StoreError
from proctor.errors import SuiteError as SuiteError
from proctor.errors import UsageError as UsageError
from proctor.model import Assertion as Assertion
from proctor.model import Attachment as Attachment
from proctor.model import Case as Case
from proctor.model import Message as Message
from proctor.model import Output as Output
from proctor.model import Prompt as Prompt
from proctor.model import PromptTemplate as PromptTemplate
from proctor.model import Run as Run
from proctor.model import Score as Score
from proctor.model import Suite as Suite
from proctor.model import Trial as Trial
from proctor.model import Verdict as Verdict
from proctor.python.graders import grader as grader
from proctor.python.results import GradedTrial as GradedTrial
from proctor.python.results import RunGroup as RunGroup
from proctor.python.results import RunResult as RunResult
from proctor.python.run import arun as arun
from proctor.python.run import iter_run as iter_run
from proctor.python.run import run as run
from proctor.python.stores import load_run as load_run
from proctor.python.stores import open_store as open_store

__version__: str
_HOMES: dict[str, str]

__all__ = [
    "Assertion",
    "Attachment",
    "Case",
    "GradedTrial",
    "Message",
    "NothingSelected",
    "Output",
    "ProctorError",
    "Prompt",
    "PromptTemplate",
    "Run",
    "RunGroup",
    "RunResult",
    "Score",
    "StoreError",
    "Suite",
    "SuiteError",
    "Trial",
    "UsageError",
    "Verdict",
    "arun",
    "grader",
    "hash_suite",
    "iter_run",
    "load_run",
    "open_store",
    "run",
]
