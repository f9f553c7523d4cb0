"""Proctor runs suites of test cases against language models and grades every answer.

Each public name is imported when it is first used. This file itself imports nothing, not even `typing`, so
that the command line is soon there to hear a signal.
"""

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from proctor.codec import hash_suite
    from proctor.model import Assertion, Case, Message, Output, Run, Score, Suite, Trial, Verdict

__version__ = "0.2.0.dev0"

_HOMES = {
    "Assertion": "model",
    "Case": "model",
    "Message": "model",
    "Output": "model",
    "Run": "model",
    "Score": "model",
    "Suite": "model",
    "Trial": "model",
    "Verdict": "model",
    "hash_suite": "codec",
}

__all__ = [
    "Assertion",
    "Case",
    "Message",
    "Output",
    "Run",
    "Score",
    "Suite",
    "Trial",
    "Verdict",
    "hash_suite",
]


def __getattr__(name: str) -> object:
    """A public name, imported from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'proctor' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"proctor.{_HOMES[name]}"), name)
    return value
