"""The process that grades by the `@proctor.grader` functions of a file, for suites that name it as a program.

`main` reads a case, an output and parameters as JSON on each line of stdin, and writes a result as JSON on a
line. `targets.process.suite_programs` starts it with a Python file, and perhaps the name of one function.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.grading import GradingContext, score
from proctor.model import Assertion, Case, Output, Verdict
from proctor.python.graders import FunctionGrader


def main() -> None:
    """Answers lines until stdin ends; arguments are the file and perhaps the name of a function."""
    # What a function prints must not be part of an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # What a function starts must not read the next lines, nor wait for them.
    lines = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - it needs a descriptor
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    path, *names = sys.argv[1:]
    sys.argv = [path]
    grader: FunctionGrader[..., Any] | None = None
    problem = ""
    try:
        grader = _load_grader(Path(path), *names)
    except UsageError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - it is the user's code
        problem = f"The file cannot be imported: {type(error).__name__}: {error}"
    with asyncio.Runner() as runner:
        for line in lines:
            result = {"error": problem} if grader is None else runner.run(_grade(grader, json.loads(line)))
            answers.write(json.dumps(result).encode("ascii") + b"\n")
            answers.flush()


def _load_grader(path: Path, name: str | None = None) -> FunctionGrader[..., Any]:
    """Imports a file and returns its only grader, the one with that name, or the one named like the file.

    Raises:
        UsageError: it has several, or none of that name.
    """
    sys.path.insert(0, str(path.absolute().parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    graders = {value.name: value for value in vars(module).values() if isinstance(value, FunctionGrader)}
    if name is None and len(graders) == 1:
        return next(iter(graders.values()))
    grader = graders.get(path.stem if name is None else name)
    if grader is None:
        known = ", ".join(graders)
        raise UsageError(
            f"It has the graders {known}. Name one of them after the file in `command`."
            if name is None
            else f"It has no grader {name!r}. Its graders are: {known}."
        )
    return grader


async def _grade(grader: FunctionGrader[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of a function in the form that programs print."""
    assertion = Assertion(grader=grader.name, params=request["params"])
    case, output = convert(request["case"], Case), convert(request["output"], Output)
    result = await score(assertion, GradingContext().input_for(case, output), GRADERS.get)
    if result.outcome is Verdict.UNSCORED:
        return {"error": result.reason}
    return {
        "score": result.value,
        "reasoning": result.reason,
        "assertions": to_builtins(result.entries),
        "details": result.details,
    }
