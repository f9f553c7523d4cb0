"""Grades an output by a program of the user's own, which reads JSON on stdin and prints one JSON object.

A program need not read its stdin. If it fails, or prints anything else, the case is UNSCORED, and the reason
has what it printed. The format is that of AgentV's code graders.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from proctor import codec
from proctor.env_vars import end_of
from proctor.errors import CannotScore, TargetError
from proctor.graders.json_structure import NotJson, parse_json
from proctor.graders.judged.judge_call import PASS_AT, check_judge, judges_of
from proctor.graders.program_payload import payload_of, script_payload_of
from proctor.graders.text import clip, listed, shown
from proctor.grading import isolated, size_of
from proctor.model import Entry, Mark
from proctor.protocols import Finished, Graded, Grading
from proctor.stats import reaches

_EXPECTED_OUTPUT = 'It must print one JSON object and nothing else, such as {"score": 0.5, "assertions": []}.'
_MAX_SHOWN = 2000
_REASON_SHOWN = 500


class Program(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a program gives the answer a score of at least 0.8.

    The program gets the case, the output and its metrics as JSON on stdin.
    """

    waits: ClassVar[bool] = True

    command: tuple[str, ...]
    """The program and its arguments, run without a shell. `python` is the interpreter that runs Proctor."""
    cwd: str | None = None
    """Its working directory, relative to the suite's folder; None is that folder."""
    timeout_s: float = 60.0
    """The time limit in seconds, after which it is killed with all its child processes."""
    config: dict[str, Any] | None = None
    """Passed to it unchanged, under `config`."""
    max_calls: int | None = None
    """How often it may call a judge; None: never."""
    judge: str | None = None
    """The name of the judge that it calls; None uses those of the run."""
    output: Literal["messages", "text"] = "messages"
    """The form of `output` in its input: the target's messages, as in AgentV 4, or the answer as text, as in
    AgentV 5."""

    def __post_init__(self) -> None:
        if not self.command or not self.command[0].strip():
            raise ValueError("`command` names no program; give a list of the program and its arguments.")
        if not (math.isfinite(self.timeout_s) and self.timeout_s > 0):
            raise ValueError(f"`timeout_s` is {self.timeout_s:g}; give a number of seconds above 0.")
        if self.max_calls is not None and self.max_calls < 1:
            raise ValueError(f"`max_calls` is {self.max_calls}; give 1 or more, or leave it out.")
        if self.judge is not None and self.max_calls is None:
            raise ValueError("`judge` has no effect without `max_calls`; say how often it may be asked.")
        check_judge(self.judge, None)

    def wants(self) -> frozenset[str]:
        """Returns `judge` if the program may call one."""
        return frozenset() if self.max_calls is None else frozenset(("judge",))

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run, if the program may call one."""
        return () if self.max_calls is None else (self.judge,)

    async def grade(self, graded: Graded) -> Mark:
        """Scores what the program prints, cut to 0 to 1, with one entry per assertion of the program.

        Raises:
            CannotScore: the program could not be run, failed, or printed something else.
        """
        build = script_payload_of if self.output == "text" else payload_of
        return await self.mark_of(build(graded, self.config), graded)

    async def mark_of(self, payload: dict[str, Any], graded: Graded) -> Mark:
        """Runs the program with the payload as JSON, and returns its result.

        Raises:
            CannotScore: the program could not be run, failed, or printed something else.
        """
        if self.max_calls is None:
            return await self._run(payload, graded, {})
        judges = (*judges_of(graded, self.judge), *graded.judges, *graded.named.values())
        if graded.lender is None or not judges:
            raise CannotScore("This program may ask a judge and the run has none; give one with --judge.")
        try:
            async with graded.lender.lend(judges, graded.case, self.max_calls) as lent:
                mark = await self._run(payload, graded, lent.variables)
        except CannotScore as error:
            raise CannotScore(str(error), tuple(lent.judgments)) from error
        return replace(mark, judgments=tuple(lent.judgments))

    async def _run(self, payload: dict[str, Any], graded: Graded, lent: Mapping[str, str]) -> Mark:
        if graded.programs is None:
            raise CannotScore("This check is a program, and no programs are run here.")
        stdin = await isolated(graded, partial(_as_stdin, payload), size_of(graded.output))
        variables = dict(lent)
        if graded.workspace is not None:
            variables |= dict.fromkeys(("PROCTOR_WORKSPACE_PATH", "AGENTV_WORKSPACE_PATH"), graded.workspace)
        try:
            finished = await graded.programs.run(
                self.command, stdin, timeout_s=self.timeout_s, cwd=self.cwd, variables=variables
            )
        except TargetError as error:
            raise CannotScore(f"The program could not tell: {error}") from error
        work = partial(read_mark, finished, shlex.join(self.command))
        return await isolated(graded, work, len(finished.stdout))


def _as_stdin(payload: dict[str, Any]) -> bytes:
    try:
        # Escaped beyond ASCII, as a lone surrogate in an answer can be written in no other way.
        return json.dumps(payload, allow_nan=False).encode("ascii")
    except (ValueError, TypeError) as error:
        raise CannotScore(f"What the program should read cannot be written as JSON: {error}.") from None


def read_mark(finished: Finished, called: str) -> Mark:
    """Parses the result that a program printed.

    Args:
        finished: the exit code and output of the program.
        called: the name of the program in messages.

    Raises:
        CannotScore: the program failed, or did not print a valid object.
    """
    try:
        if finished.exit_code != 0:
            raise _Unreadable(f"{finished.ending}.{end_of(finished.stdout, 'stdout', _MAX_SHOWN)}")
        return _mark(_parse_output(finished.stdout))
    except _Unreadable as problem:
        after = end_of(finished.stderr, "stderr", _MAX_SHOWN)
        raise CannotScore(f"The program {shown(called)} {problem}{after}") from None


class _Unreadable(Exception):
    """There is no result; the message continues a sentence that begins with the program's name."""


def _parse_output(stdout: bytes) -> dict[str, Any]:
    """Parses the JSON object on stdout.

    Refuses text around it: otherwise, if a program echoes the answer, the answer could print a score.
    """
    text = stdout.decode("utf-8-sig", "replace").strip()
    if not text:
        raise _Unreadable(f"printed nothing. {_EXPECTED_OUTPUT}")
    try:
        value = parse_json(text, strip_fences=False)
    except (NotJson, CannotScore) as error:
        why = error if isinstance(error, NotJson) else "it is too deep or too long"
        began = "JSON that breaks off or is not valid" if text[0] in "{[" else "what is not JSON"
        raise _Unreadable(f"printed {began} ({why}): {shown(text)}. {_EXPECTED_OUTPUT}") from None
    if not isinstance(value, dict):
        raise _Unreadable(f"printed JSON that is no object: {shown(text)}. {_EXPECTED_OUTPUT}")
    try:
        codec.encode(value)
    except (ValueError, OverflowError) as error:
        raise _Unreadable(f"printed what cannot be kept: {error}.") from None
    return value


def _mark(result: dict[str, Any]) -> Mark:
    entries = _entries(result.get("assertions"))
    raw = _score(result, entries)
    value = float(min(max(raw, 0), 1))
    reasoning = result.get("reasoning")
    reason = " ".join(reasoning.split()) if isinstance(reasoning, str) else ""
    if raw != value:
        reason = f"The score {clip(str(raw), 20)} was cut to {value:g}. {reason}".rstrip()
    details = result.get("details")
    return Mark(
        value=value,
        passed=reaches(value, PASS_AT),
        reason=clip(reason or _summary(value, entries), _REASON_SHOWN),
        entries=entries,
        details=details if isinstance(details, dict) else {} if details is None else {"details": details},
    )


def _score(result: dict[str, Any], entries: tuple[Entry, ...]) -> float:
    """Returns `score`, else `pass` as a number, else the share of assertions that passed."""
    score, passed = result.get("score"), result.get("pass")
    if isinstance(score, int | float) and not isinstance(score, bool):
        return score
    if isinstance(passed, bool):
        return float(passed)
    if not entries:
        raise _Unreadable(f"printed an object with no score: {shown(json.dumps(result))}. {_EXPECTED_OUTPUT}")
    unknown = next((entry.text for entry in entries if entry.passed is None), None)
    if unknown is not None:
        raise _Unreadable(
            f"printed no score, and the assertion {shown(unknown)} has no `passed`. {_EXPECTED_OUTPUT}"
        )
    return sum(entry.passed is True for entry in entries) / len(entries)


def _entries(assertions: Any) -> tuple[Entry, ...]:
    if assertions is None:
        return ()
    if not isinstance(assertions, list) or not all(isinstance(item, dict) for item in assertions):
        raise _Unreadable(f"printed `assertions` that are no list of objects. {_EXPECTED_OUTPUT}")
    return tuple([_entry(item, nth) for nth, item in enumerate(assertions, 1)])


def _entry(item: dict[str, Any], nth: int) -> Entry:
    text, passed, evidence = item.get("text"), item.get("passed"), item.get("evidence")
    return Entry(
        text=text if isinstance(text, str) and text.strip() else f"assertion {nth}",
        passed=passed if isinstance(passed, bool) else None,
        evidence=evidence if evidence is None or isinstance(evidence, str) else json.dumps(evidence),
    )


def _summary(value: float, entries: tuple[Entry, ...]) -> str:
    failed = [entry.text for entry in entries if entry.passed is False]
    if failed:
        return f"{len(failed)} of {len(entries)} checks of the program failed: {listed(failed)}."
    if len(entries) == 1:
        return f"The program gave the score {value:g}, and its check did not fail."
    if entries:
        return f"The program gave the score {value:g}, and none of its {len(entries)} checks failed."
    return f"The program gave the score {value:g}."
