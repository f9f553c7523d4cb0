"""Renders one trial as text: the conversation, then its scores. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from proctor.model import ChoiceLikelihood, Output, PassRule, Score, ToolCall, Verdict
from proctor.plurals import pluralize, trial_name
from proctor.reports.formatting import cost, milliseconds, percent, token_counts
from proctor.reports.runs.answer_parts import (
    attachment_text,
    id_facts,
    logprob_text,
    speed_facts,
    view_tokens,
)
from proctor.reports.runs.serialize import TrialResult, failed_gates_text, failure_reason, question_text
from proctor.safe_text import escape_invisible, one_line, truncate
from proctor.verdicts import trial_score

_BY_SCORE = (Verdict.PASS, Verdict.FAIL)
_MAX_CALLS = 50
_MAX_CHANGED_LINES = 60
_MAX_CALL_LENGTH = 160
_MAX_TOKENS = 500
_USUAL_ENDS = frozenset({"stop", "end_turn", "STOP", "completed"})
"""How services say that an answer ended by itself."""


def render_text(row: TrialResult, rule: PassRule, *, full: bool = False) -> Iterator[str]:
    """Yields the prompt, the answer, an agent's actions and the result of each assertion.

    For a hidden trial only verdict and score.

    Args:
        row: the trial with its case.
        rule: decides when its scores pass.
        full: whether to show the reasoning and the probability of each token.
    """
    return (line for lines in _render(row, rule, full=full) for line in escape_invisible(lines).split("\n"))


def _render(row: TrialResult, rule: PassRule, *, full: bool) -> Iterator[str]:
    trial, case = row.trial, row.case
    yield f"{row.verdict.value.upper()} {one_line(trial_name(trial.case_id, trial.repeat))}"
    if row.sealed:
        yield from _sealed_lines(row)
        return
    if case.input:
        yield from _block("question", question_text(case))
    if case.criteria is not None:
        yield from _block("criteria", case.criteria)
    if case.expected is not None:
        yield from _block("expected", _to_text(case.expected))
    if trial.output is not None and trial.output.target is not None:
        yield from _block("target", f"{trial.output.target}, as a fallback")
    elif trial.target is not None:
        yield from _block("target", trial.target)
    if trial.output is not None:
        yield from _answer_lines(trial.output, full=full)
    else:
        yield from _block("no answer", failure_reason(trial))
    below, mean = failed_gates_text(trial), trial_score(trial)
    if below:
        yield f"  {below}"
    elif row.verdict in _BY_SCORE and mean is not None and rule.threshold is not None:
        yield from _block("score", f"{mean:.2f} (pass threshold {rule.threshold:g})")
    for score in trial.scores:
        yield from _score_lines(score)
    yield ""


def _sealed_lines(row: TrialResult) -> Iterator[str]:
    mean = trial_score(row.trial)
    if mean is not None:
        yield from _block("score", f"{mean:.2f}")
    yield from _block(
        "hidden", "this case is in the holdout; --reveal shows it, which counts as a holdout access"
    )
    yield ""


def _answer_lines(output: Output, *, full: bool) -> Iterator[str]:
    """Yields the tool calls, the reasoning, the answer, the changed files, the usage and the ids."""
    calls = [_call_line(call) for call in output.tool_calls[:_MAX_CALLS]]
    if calls:
        yield from _block("tools", "\n".join([*calls, *_more(len(output.tool_calls) - _MAX_CALLS, "call")]))
    if output.reasoning:
        hint = f"{pluralize(len(output.reasoning), 'character')}: --full shows them"
        yield from _block("reasoning", output.reasoning if full else hint)
    yield from _block("answer", output.text)
    if output.choices:
        yield from _block("choices", "\n".join(map(_choice_line, output.choices)))
    for attachment in output.attachments:
        yield from _block("attached", one_line(attachment_text(attachment)))
    if output.logprobs:
        hint = "" if full else "; --full shows each"
        yield from _block("logprobs", logprob_text(output) + hint)
        if full:
            yield from _token_lines(output)
    if output.file_changes:
        change_lines = output.file_changes.splitlines()
        more = _more(len(change_lines) - _MAX_CHANGED_LINES, "line")
        yield from _block("changes", "\n".join([*change_lines[:_MAX_CHANGED_LINES], *more]))
    if output.usage is not None or output.first_token_ms is not None:
        yield from _block("took", " · ".join(_cost_texts(output)))
    if output.finish_reason not in (None, *_USUAL_ENDS):
        yield from _block("ended by", one_line(output.finish_reason or ""))
    ids = [one_line(f"{name} {value}") for name, value in id_facts(output) if name != "fingerprint"]
    if ids:
        yield from _block("service", " · ".join(ids))


def _cost_texts(output: Output) -> Iterator[str]:
    """Yields the time that an answer took, its speed, its tokens and its cost."""
    yield milliseconds(output.duration_ms or output.latency_ms or None)
    yield from (value if name == "speed" else f"{name} {value}" for name, value in speed_facts(output))
    if output.usage is not None:
        yield token_counts(output.usage, " tokens")
    yield f"cost {cost(output.cost_usd)}"


def _token_lines(output: Output) -> Iterator[str]:
    """Yields each token with its probability and the likeliest others."""
    for token in view_tokens(output.logprobs, _MAX_TOKENS):
        rest = "".join(f"  {text!r} {percent(probability)}" for text, probability in token.alternatives)
        yield f"  {'':<10} {percent(token.probability):>6} {token.text!r}{rest}"
    for line in _more(len(output.logprobs) - _MAX_TOKENS, "token"):
        yield f"  {'':<10} {line}"


def _choice_line(choice: ChoiceLikelihood) -> str:
    greedy = ", the most likely text" if choice.is_greedy else ""
    return (
        f"{choice.logprob:>9.4f}  {truncate(choice.text, _MAX_CALL_LENGTH)} "
        f"({pluralize(choice.tokens, 'token')}{greedy})"
    )


def _call_line(call: ToolCall) -> str:
    arguments = f" {truncate(_to_text(call.arguments), _MAX_CALL_LENGTH)}" if call.arguments else ""
    result = "" if call.output is None else f" → {truncate(_to_text(call.output), _MAX_CALL_LENGTH)}"
    took = "" if call.duration_ms is None else f" · {milliseconds(call.duration_ms)}"
    return f"{one_line(call.name)}{arguments}{result}{took}"


def _score_lines(score: Score) -> Iterator[str]:
    value = "–" if score.value is None else f"{score.value:.2f}"
    yield _hang_indent(f"  {score.outcome.value:<8} {value}  {score.name}: {score.reason or 'met'}")
    for entry in score.entries:
        sign = {True: "✓", False: "✗", None: "?"}[entry.passed]
        yield _hang_indent(
            f"           {sign} {entry.text}" + (f" – {entry.evidence}" if entry.evidence else "")
        )
    for judgment in score.judgments:
        verdict = {True: "passes it", False: "fails it", None: "gives no verdict"}[judgment.passed]
        by = "" if judgment.evaluator is None else f" by {judgment.evaluator!r}"
        feedback = " ".join((judgment.raw if judgment.feedback is None else judgment.feedback).split())
        yield f"           {judgment.judge}{by} {verdict}" + (f": {feedback}" if feedback else "")


def _hang_indent(text: str) -> str:
    """Indents the further lines of a text, so that none looks like a line of the report."""
    return f"\n{'':<13}".join(text.splitlines())


def _block(name: str, text: str) -> Iterator[str]:
    first, *other_lines = text.splitlines() or [""]
    yield f"  {name + ':':<10} {first}"
    for line in other_lines:
        yield f"  {'':<10} {line}".rstrip()


def _to_text(value: object) -> str:
    """Returns a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _more(count: int, what: str) -> list[str]:
    return [f"…and {count:,} more {what}{'s' * (count > 1)}: --json has all"] if count > 0 else []
