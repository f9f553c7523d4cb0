"""Finds what an untrusted suite would do here besides calling the target, and refuses it.

A user's own suite may run programs, name targets and read environment variables. One from a bundle or a page
would do so on this machine, with this user's keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from proctor.errors import UnknownName, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Assertion, Case, Workspace
from proctor.plan import CaseIndex
from proctor.safe_text import truncate

ALLOW_FLAG = "--allow-programs"
_MAX_NAMED = 5
"""The maximum number of side effects that a message names."""


class SideEffectCheck:
    """Collects the side effects of a suite's cases while they are read."""

    def __init__(self, own_targets: Collection[str], *, judged: bool = False) -> None:
        """Takes what cases are allowed to use.

        Args:
            own_targets: the names in the user's own targets file, which cases may use.
            judged: the user names the judges, so those that graders name are not called.
        """
        self._own_targets = own_targets
        self._judged = judged
        self._effects: list[tuple[int, str, str, str]] = []

    def add(self, position: int, case: Case) -> None:
        """Adds the next case, with its position in the suite."""
        for what, detail in find_side_effects(case, self._own_targets, judged=self._judged):
            self._effects.append((position, case.id, what, detail))

    def check(self, index: CaseIndex) -> None:
        """Refuses a suite with side effects.

        Args:
            index: says which cases are held out; their details are not shown.

        Raises:
            UsageError: it has some; names them, and how to allow them.
        """
        if not self._effects:
            return
        sentences = []
        for position, case_id, what, detail in self._effects[:_MAX_NAMED]:
            shown_detail = "" if index.split_at(position) == "holdout" else f" ({truncate(detail, 60)})"
            sentences.append(f"case {case_id!r} {what}{shown_detail}")
        more = f"; and {len(self._effects) - _MAX_NAMED:,} more" if len(self._effects) > _MAX_NAMED else ""
        raise UsageError(
            f"The suite of this bundle would act on this machine: {'; '.join(sentences)}{more}. "
            "Nothing was done. Read the suite.jsonl of the bundle. To allow these actions, add "
            f"{ALLOW_FLAG}."
        )


def find_side_effects(
    case: Case, own_targets: Collection[str], *, judged: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields what a case would do, each as a phrase to follow its name, and the details.

    Args:
        case: the case.
        own_targets: the names in the user's own targets file.
        judged: the user names the judges, so those that graders name are not called.
    """
    for assertion in case.assertions:
        for command in _find_programs(assertion):
            yield "is graded by a program", " ".join(command)
        if not judged:
            for judge in _find_judges(assertion):
                if judge not in own_targets:
                    yield "names a judge of its own", judge
    if case.workspace is not None:
        yield "uses a workspace", ", ".join(_workspace_effects(case.workspace))
    if case.target is not None and case.target not in own_targets:
        yield "names a target of its own", case.target
    for name in case.variables:
        yield "reads an environment variable", name


def _find_programs(assertion: Assertion) -> Iterator[list[str]]:
    """Yields the command lines of an assertion, including those inside a composite."""
    if assertion.grader == "program":
        yield _command_words(assertion.params.get("command"))
    elif assertion.grader == "composite":
        yield from _find_inner_programs(assertion.params)


def _find_inner_programs(data: Any) -> Iterator[list[str]]:
    """Yields the command lines of all parts of type `program`, at any depth; in doubt, too many."""
    if isinstance(data, dict):
        if "program" in (data.get("grader"), data.get("type")):
            inner = data.get("params")
            yield _command_words((inner if isinstance(inner, dict) else data).get("command"))
        data = list(data.values())
    if isinstance(data, list | tuple):
        for part in data:
            yield from _find_inner_programs(part)


def _command_words(command: Any) -> list[str]:
    return [str(word) for word in command] if isinstance(command, list | tuple) else ["?"]


def _find_judges(assertion: Assertion) -> list[str]:
    try:
        grader = build_grader(assertion, GRADERS.get)
    except (UnknownName, ValueError):  # an invalid grader calls nothing
        return []
    judges = grader.judges() if grader.requirements() else ()
    return [name for name in dict.fromkeys(judges) if name is not None]


def _workspace_effects(workspace: Workspace) -> Iterator[str]:
    hooks = workspace.hooks
    for hook in (hooks.before_all, hooks.before_each, hooks.after_each, hooks.after_all):
        if hook is not None and hook.command:
            yield f"runs {' '.join(hook.command)}"
    for repository in workspace.repositories:
        yield f"clones {repository.source}"
    if workspace.template is not None:
        yield f"copies {workspace.template}"
    if workspace.path is not None:
        yield f"uses {workspace.path}"
    yield "runs git"
