"""Grades an output by a program of the user's own, which reads JSON on stdin and prints one JSON object.

A program need not read its stdin. If it fails, or prints anything else, the case is UNSCORED, and the reason
has what it printed. The format is that of AgentV's code graders. A persistent program reads one such object
on each line and prints one line for each; so does a file of `@proctor.grader` functions.
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
from proctor.env_substitution import stream_end_sentence
from proctor.errors import CannotScore, TargetError
from proctor.graders.json_structure import NotJson, parse_json
from proctor.graders.judged.judge_call import DEFAULT_PASS_AT, check_judge, get_judges
from proctor.graders.program_payload import build_function_payload, build_payload, build_script_payload
from proctor.graders.text import clip, quote, quote_list
from proctor.grading import estimate_size, run_isolated
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, CompletedProgram, GraderCommand, GradingInput
from proctor.stats import reaches

_EXPECTED_OUTPUT = 'It must print one JSON object and nothing else, such as {"score": 0.5, "assertions": []}.'
_MAX_OUTPUT_LENGTH = 2000
_MAX_REASON_LENGTH = 500
_NO_PROGRAMS = "This check is a program, and programs are not run here."


class Program(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a program gives the answer a score of at least 0.8.

    The program gets the case, the output and its metrics as JSON on stdin.
    """

    is_async: ClassVar[bool] = True

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
    persistent: bool = False
    """Whether it stays alive: it then reads one line for each answer, and prints one."""

    def __post_init__(self) -> None:
        if not self.command or not self.command[0].strip():
            raise ValueError("`command` names no program; write a list with the program and its arguments.")
        if not (math.isfinite(self.timeout_s) and self.timeout_s > 0):
            raise ValueError(f"`timeout_s` is {self.timeout_s:g}; it must be a number of seconds above 0.")
        if self.max_calls is not None and self.max_calls < 1:
            raise ValueError(
                f"`max_calls` is {self.max_calls}; it must be 1 or more. Remove it for a program that calls "
                f"no judge."
            )
        if self.judge is not None and self.max_calls is None:
            raise ValueError(
                "`judge` has no effect without `max_calls`; set how many calls the program may make."
            )
        if self.persistent and self.max_calls is not None:
            raise ValueError(
                "`persistent` cannot be combined with `max_calls`: the judge's token is an environment "
                "variable that changes with each answer. Remove one of them."
            )
        check_judge(self.judge, None)

    def requirements(self) -> frozenset[str]:
        """Returns `judge` if the program may call one."""
        return frozenset() if self.max_calls is None else frozenset(("judge",))

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run, if the program may call one."""
        return () if self.max_calls is None else (self.judge,)

    def commands(self) -> tuple[GraderCommand, ...]:
        """Returns the program."""
        return (GraderCommand(self.command, self.cwd),)

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores what the program prints, cut to 0 to 1, with one entry per assertion of the program.

        Raises:
            CannotScore: the program could not be run, failed, or printed something else.
        """
        programs = grading_input.programs
        if programs is not None and programs.is_grader_file(self.command, self.cwd):
            if self.max_calls is not None:
                raise CannotScore(
                    f"{quote(shlex.join(self.command))} is a file of `@proctor.grader` functions, which "
                    "cannot call a judge. Remove `max_calls`, or write a program that reads stdin."
                )
            return await self._exchange(build_function_payload(grading_input, self.config), grading_input)
        build = build_script_payload if self.output == "text" else build_payload
        return await self.grade_payload(build(grading_input, self.config), grading_input)

    async def grade_payload(self, payload: dict[str, Any], grading_input: GradingInput) -> GraderResult:
        """Runs the program with the payload as JSON, and returns its result.

        Raises:
            CannotScore: the program could not be run, failed, or printed something else.
        """
        if self.persistent:
            return await self._exchange(payload, grading_input)
        if self.max_calls is None:
            return await self._run(payload, grading_input, {})
        judges = (
            *get_judges(grading_input, self.judge),
            *grading_input.judges,
            *grading_input.named_judges.values(),
        )
        if grading_input.judge_provider is None or not judges:
            raise CannotScore("This program may call a judge, but the run has none; choose one with --judge.")
        try:
            async with grading_input.judge_provider.serve_program(
                judges, grading_input.case, self.max_calls
            ) as lent:
                result = await self._run(payload, grading_input, lent.variables)
        except CannotScore as error:
            raise CannotScore(str(error), tuple(lent.judgments)) from error
        return replace(result, judgments=tuple(lent.judgments))

    async def _exchange(self, payload: dict[str, Any], grading_input: GradingInput) -> GraderResult:
        """Has a program that stays alive grade the payload; it is killed unless its answer is a result."""
        if grading_input.programs is None:
            raise CannotScore(_NO_PROGRAMS)
        line = await run_isolated(
            grading_input, partial(_encode_stdin, payload), estimate_size(grading_input.output)
        )
        unmeasured: MeasuredNothing | None = None
        try:
            async with grading_input.programs.open_persistent(self.command, cwd=self.cwd) as program:
                completed = await program.exchange(line, timeout_s=self.timeout_s)
                work = partial(parse_result, completed, shlex.join(self.command), payload.get("test_id"))
                try:
                    return await run_isolated(grading_input, work, len(completed.stdout))
                except MeasuredNothing as error:  # an answer like any other
                    unmeasured = error
        except TargetError as error:
            raise CannotScore(f"The program could not grade the answer: {error}") from error
        raise unmeasured

    async def _run(
        self, payload: dict[str, Any], grading_input: GradingInput, lent: Mapping[str, str]
    ) -> GraderResult:
        if grading_input.programs is None:
            raise CannotScore(_NO_PROGRAMS)
        stdin = await run_isolated(
            grading_input, partial(_encode_stdin, payload), estimate_size(grading_input.output)
        )
        variables = dict(lent)
        if grading_input.workspace is not None:
            variables |= dict.fromkeys(
                ("PROCTOR_WORKSPACE_PATH", "AGENTV_WORKSPACE_PATH"), grading_input.workspace
            )
        try:
            completed = await grading_input.programs.run(
                self.command, stdin, timeout_s=self.timeout_s, cwd=self.cwd, variables=variables
            )
        except TargetError as error:
            raise CannotScore(f"The program could not grade the answer: {error}") from error
        work = partial(parse_result, completed, shlex.join(self.command))
        return await run_isolated(grading_input, work, len(completed.stdout))


def _encode_stdin(payload: dict[str, Any]) -> bytes:
    try:
        # Escaped beyond ASCII, as a lone surrogate in an answer can be written in no other way.
        return json.dumps(payload, allow_nan=False).encode("ascii")
    except (ValueError, TypeError) as error:
        raise CannotScore(f"The input of the program cannot be written as JSON: {error}.") from None


class MeasuredNothing(CannotScore):
    """A program says in `error` why it has no score."""


def parse_result(completed: CompletedProgram, called: str, test_id: str | None = None) -> GraderResult:
    """Parses the result that a program printed.

    Args:
        completed: the exit code and output of the program.
        called: the name of the program in messages.
        test_id: if given, the result may name no other test.

    Raises:
        CannotScore: the program failed, or did not print a valid object.
        MeasuredNothing: it printed an object with `error` instead of a score.
    """
    try:
        if completed.exit_code != 0:
            raise _UnreadableOutput(
                f"{completed.ending}.{stream_end_sentence(completed.stdout, 'stdout', _MAX_OUTPUT_LENGTH)}"
            )
        printed = _parse_output(completed.stdout)
        if test_id is not None and printed.get("test_id", test_id) != test_id:
            other = clip(str(printed["test_id"]))
            raise _UnreadableOutput(
                f"printed a result for the test {quote(other)}, not for {quote(test_id)}."
            )
        return _to_grader_result(printed)
    except (_UnreadableOutput, _ProgramError) as problem:
        after = stream_end_sentence(completed.stderr, "stderr", _MAX_OUTPUT_LENGTH)
        kind = MeasuredNothing if isinstance(problem, _ProgramError) else CannotScore
        raise kind(f"The program {quote(called)} {problem}{after}") from None


class _UnreadableOutput(Exception):
    """There is no result; the message continues a sentence that begins with the program's name."""


class _ProgramError(Exception):
    """The program has printed `error`; the message continues a sentence that begins with its name."""


def _parse_output(stdout: bytes) -> dict[str, Any]:
    """Parses the JSON object on stdout.

    Refuses text around it: otherwise, if a program echoes the answer, the answer could print a score.
    """
    text = stdout.decode("utf-8-sig", "replace").strip()
    if not text:
        raise _UnreadableOutput(f"printed nothing. {_EXPECTED_OUTPUT}")
    try:
        value = parse_json(text, strip_fences=False)
    except (NotJson, CannotScore) as error:
        why = error if isinstance(error, NotJson) else "it is nested too deeply or is too long"
        began = "incomplete or invalid JSON" if text[0] in "{[" else "text that is not JSON"
        raise _UnreadableOutput(f"printed {began} ({why}): {quote(text)}. {_EXPECTED_OUTPUT}") from None
    if not isinstance(value, dict):
        raise _UnreadableOutput(f"printed JSON that is not an object: {quote(text)}. {_EXPECTED_OUTPUT}")
    try:
        codec.encode(value)
    except (ValueError, OverflowError) as error:
        raise _UnreadableOutput(f"printed a result that cannot be stored: {error}.") from None
    return value


def _to_grader_result(result: dict[str, Any]) -> GraderResult:
    entries = _read_entries(result.get("assertions"))
    raw = _read_score(result, entries)
    value = float(min(max(raw, 0), 1))
    reasoning = result.get("reasoning")
    reason = " ".join(reasoning.split()) if isinstance(reasoning, str) else ""
    if raw != value:
        reason = f"The score {clip(str(raw), 20)} was cut to {value:g}. {reason}".rstrip()
    details = result.get("details")
    return GraderResult(
        value=value,
        passed=reaches(value, DEFAULT_PASS_AT),
        reason=clip(reason or _summarize(value, entries), _MAX_REASON_LENGTH),
        entries=entries,
        details=details if isinstance(details, dict) else {} if details is None else {"details": details},
    )


def _read_score(result: dict[str, Any], entries: tuple[Evidence, ...]) -> float:
    """Returns `score`, else `pass` as a number, else the share of assertions that passed."""
    score, passed = result.get("score"), result.get("pass")
    if isinstance(score, int | float) and not isinstance(score, bool):
        return score
    if isinstance(passed, bool):
        return float(passed)
    if not entries:
        error = result.get("error")
        if isinstance(error, str) and error.strip():
            raise _ProgramError(f"measured nothing: {clip(' '.join(error.split()), _MAX_REASON_LENGTH)}")
        raise _UnreadableOutput(
            f"printed an object with no score: {quote(json.dumps(result))}. {_EXPECTED_OUTPUT}"
        )
    unknown = next((entry.text for entry in entries if entry.passed is None), None)
    if unknown is not None:
        raise _UnreadableOutput(
            f"printed no score, and the assertion {quote(unknown)} has no `passed`. {_EXPECTED_OUTPUT}"
        )
    return sum(entry.passed is True for entry in entries) / len(entries)


def _read_entries(assertions: Any) -> tuple[Evidence, ...]:
    if assertions is None:
        return ()
    if not isinstance(assertions, list) or not all(isinstance(item, dict) for item in assertions):
        raise _UnreadableOutput(f"printed `assertions` that are not a list of objects. {_EXPECTED_OUTPUT}")
    entries: list[Evidence] = []
    for nth, item in enumerate(assertions, 1):
        text, passed, evidence = item.get("text"), item.get("passed"), item.get("evidence")
        entries.append(
            Evidence(
                text=text if isinstance(text, str) and text.strip() else f"assertion {nth}",
                passed=passed if isinstance(passed, bool) else None,
                evidence=evidence if evidence is None or isinstance(evidence, str) else json.dumps(evidence),
            )
        )
    return tuple(entries)


def _summarize(value: float, entries: tuple[Evidence, ...]) -> str:
    failed = [entry.text for entry in entries if entry.passed is False]
    if failed:
        return f"{len(failed)} of {len(entries)} checks of the program failed: {quote_list(failed)}."
    if entries and all(entry.passed for entry in entries):
        checks = "its check" if len(entries) == 1 else f"all of its {len(entries)} checks"
        return f"The program gave the score {value:g}, and {checks} passed."
    return f"The program gave the score {value:g}."
