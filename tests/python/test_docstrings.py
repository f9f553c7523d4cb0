"""The examples in docstrings: every public name has one, and each prints what it shows."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from typing import Any

import pytest

import proctor
from proctor import python as calls

FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples() -> Iterator[doctest.DocTest]:
    """The examples of each public name, and of whatever else the modules of calls have."""
    docstrings = set()
    modules = [
        import_module(f"{calls.__name__}.{submodule.name}")
        for submodule in pkgutil.iter_modules(calls.__path__)
    ]
    things: list[tuple[str, Any]] = [(name, getattr(proctor, name)) for name in proctor.__all__]
    things += [(module.__name__, module) for module in modules]
    for name, thing in things:
        for test in FINDER.find(thing, name):
            if test.examples and test.docstring not in docstrings:
                docstrings.add(test.docstring)
                yield test


@pytest.mark.parametrize("name", proctor.__all__)
def test_every_public_name_has_a_docstring_with_an_example(name: str) -> None:
    docstring = inspect.getdoc(getattr(proctor, name)) or ""
    assert "Examples:" in docstring
    assert ">>> " in docstring


@pytest.mark.slow
@pytest.mark.parametrize("test", list(examples()), ids=lambda test: test.name)
def test_an_example_prints_what_it_shows(test: doctest.DocTest) -> None:
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=output.append, clear_globs=False)
    assert "".join(output) == ""


def test_the_package_is_typed_and_lists_its_names() -> None:
    assert (files("proctor") / "py.typed").is_file()
    assert set(proctor.__all__) <= set(dir(proctor))
    assert "__version__" in dir(proctor)


def test_the_help_of_run_names_every_option() -> None:
    from proctor.python.options import RunOptions

    docstring = inspect.getdoc(proctor.run) or ""
    assert [name for name in RunOptions.__annotations__ if f"`{name}`" not in docstring] == []
