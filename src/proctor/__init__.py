"""Proctor runs suites of test cases against language models and grades every answer.

Each public name is imported when it is first used; `__init__.pyi` tells type checkers where it is. This file
itself imports nothing, not even `typing`, so that the command line is soon there to hear a signal.
"""

__version__ = "0.2.0"

_HOMES = {
    "Assertion": "model",
    "Attachment": "model",
    "Case": "model",
    "GradedTrial": "python.results",
    "Message": "model",
    "NothingSelected": "errors",
    "Output": "model",
    "ProctorError": "errors",
    "Prompt": "model",
    "PromptTemplate": "model",
    "Run": "model",
    "RunGroup": "python.results",
    "RunResult": "python.results",
    "Score": "model",
    "StoreError": "errors",
    "Suite": "model",
    "SuiteError": "errors",
    "Trial": "model",
    "UsageError": "errors",
    "Verdict": "model",
    "arun": "python.run",
    "grader": "python.graders",
    "hash_suite": "codec",
    "iter_run": "python.run",
    "load_run": "python.stores",
    "open_store": "python.stores",
    "run": "python.run",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """A public name, imported from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'proctor' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"proctor.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
