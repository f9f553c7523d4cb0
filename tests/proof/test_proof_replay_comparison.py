"""The trials of a bundle and of its replay: each is in one part, and swapping the two swaps the changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import ExitCode
from proctor.model import Output, ToolCall, Verdict
from proctor.proof.replay_comparison import AnswerSummary, compare_replay, summarize_answer
from proctor.stats import clustered_wilson, wilson
from support.builders import make_trial

P, F, E, U = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED


def make_summary(name: str, verdict: Verdict, answer: str | None = "x", repeat: int = 0) -> AnswerSummary:
    return AnswerSummary(name, repeat, None, verdict, None if answer is None else answer.encode())


@st.composite
def answer_pairs(draw: st.DrawFn) -> list[tuple[AnswerSummary, AnswerSummary]]:
    keys = draw(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2)), unique=True))
    some = st.builds(
        lambda verdict, answer: (verdict, answer), st.sampled_from(Verdict), st.sampled_from(["x", "y", None])
    )
    rows = [(name, repeat, draw(some), draw(some)) for name, repeat in keys]
    return [(make_summary(n, a[0], a[1], r), make_summary(n, b[0], b[1], r)) for n, r, a, b in rows]


@given(answer_pairs())
def test_every_trial_is_in_one_part(pairs: list[tuple[AnswerSummary, AnswerSummary]]) -> None:
    comparison = compare_replay((a for a, _ in pairs), (b for _, b in pairs))
    n_compared = comparison.identical.count + comparison.same_verdict.count + comparison.changed.count
    assert (
        n_compared + len(comparison.not_measured) + len(comparison.not_measured_before)
        == comparison.total
        == len(pairs)
    )
    assert comparison.changed.count == len(comparison.now_failing) + len(comparison.now_passing)
    assert comparison.then.total == comparison.now.total == len(pairs)
    shares = [part.share for part in (comparison.identical, comparison.same_verdict, comparison.changed)]
    assert (sum(share or 0 for share in shares) == pytest.approx(1)) if n_compared else shares == [None] * 3


@given(answer_pairs())
def test_the_other_way_round_what_failed_passes(pairs: list[tuple[AnswerSummary, AnswerSummary]]) -> None:
    forward = compare_replay((a for a, _ in pairs), (b for _, b in pairs))
    backward = compare_replay((b for _, b in pairs), (a for a, _ in pairs))
    assert [s.name for s in forward.now_failing] == [s.name for s in backward.now_passing]
    assert (forward.identical, forward.same_verdict, forward.changed) == (
        backward.identical,
        backward.same_verdict,
        backward.changed,
    )


@pytest.mark.parametrize(
    ("before", "after", "part", "code"),
    [
        (make_summary("a", P), make_summary("a", P), "identical", ExitCode.OK),
        (make_summary("a", F, "x"), make_summary("a", F, "y"), "same_verdict", ExitCode.OK),
        # the same words, judged otherwise
        (make_summary("a", P), make_summary("a", F), "now_failing", ExitCode.FAILED),
        (make_summary("a", F, "x"), make_summary("a", P, "y"), "now_passing", ExitCode.FAILED),
        (make_summary("a", P), make_summary("a", E, None), "not_measured", ExitCode.NOT_MEASURED),
        (make_summary("a", P), make_summary("a", U), "not_measured", ExitCode.NOT_MEASURED),
        (make_summary("a", E, None), make_summary("a", E, None), "not_measured", ExitCode.NOT_MEASURED),
        (make_summary("a", P), make_summary("b", P), "not_measured", ExitCode.NOT_MEASURED),
        (make_summary("a", P), make_summary("a", P, repeat=1), "not_measured", ExitCode.NOT_MEASURED),
        (make_summary("a", E, None), make_summary("a", P), "not_measured_before", ExitCode.NOT_MEASURED),
    ],
)
def test_each_pair_counts_in_its_part(
    before: AnswerSummary, after: AnswerSummary, part: str, code: ExitCode
) -> None:
    comparison: Any = compare_replay([before], [after])
    names = ("identical", "same_verdict", "now_failing", "now_passing", "not_measured", "not_measured_before")
    counts = {name: getattr(comparison, name) for name in names}
    sizes = {name: len(got) if isinstance(got, tuple) else got.count for name, got in counts.items()}
    assert sizes == {name: int(name == part) for name in names}
    assert comparison.exit_code is code


def test_what_the_bundle_had_not_measured_does_not_fail_the_replay() -> None:
    comparison = compare_replay(
        [make_summary("a", E, None), make_summary("b", P)], [make_summary("a", P), make_summary("b", P)]
    )
    assert comparison.exit_code is ExitCode.OK
    assert comparison.not_measured_before == (make_summary("a", E, None),)


def test_what_was_not_measured_outranks_what_changed_and_what_did_not() -> None:
    comparison = compare_replay(
        [make_summary("a", P), make_summary("b", P)], [make_summary("a", P), make_summary("b", E, None)]
    )
    assert (comparison.identical.count, comparison.exit_code) == (1, ExitCode.NOT_MEASURED)


def test_what_was_not_asked_before_does_not_count() -> None:
    assert compare_replay([make_summary("a", P)], [make_summary("a", P), make_summary("b", F)]).total == 1


def test_an_interval_counts_cases_and_not_repeats() -> None:
    before = [make_summary(name, P, repeat=repeat) for name in "ab" for repeat in range(10)]
    after = [make_summary(name, P, repeat=repeat) for name in "ab" for repeat in range(10)]
    assert compare_replay(before, after).identical.ci95 == wilson(2, 2)


def test_an_answer_is_its_text_and_its_calls() -> None:
    def digest(**fields: Any) -> bytes | None:
        return summarize_answer(make_trial("", output=Output(**{"text": "t", **fields})), P).answer

    call = ToolCall(name="f", arguments={"a": 1, "b": 2})
    base = digest(tool_calls=(call,))
    assert digest(latency_ms=9.0, model="m", tool_calls=(call,)) == base
    later = ToolCall(name="f", arguments={"b": 2, "a": 1}, id="7", output="out", duration_ms=3.0)
    assert digest(tool_calls=(later,)) == base
    others = [
        digest(),
        digest(text="u", tool_calls=(call,)),
        digest(tool_calls=(call, call)),
        digest(tool_calls=(ToolCall(name="g", arguments=call.arguments),)),
        digest(tool_calls=(ToolCall(name="f", arguments={"a": 1, "b": 3}),)),
    ]
    assert base not in others
    assert summarize_answer(make_trial(None), E).answer is None


def test_shares_count_each_case_once() -> None:
    """One case of 50 unchanged trials, and 19 of one trial that fail now: 19 of 20 cases changed."""
    before = [make_summary("many", P, repeat=n) for n in range(50)] + [
        make_summary(f"c{n}", P) for n in range(19)
    ]
    after = [make_summary("many", P, repeat=n) for n in range(50)] + [
        make_summary(f"c{n}", F) for n in range(19)
    ]
    comparison = compare_replay(before, after)
    assert comparison.changed.count == 19
    assert comparison.changed.share == pytest.approx(0.95)
    assert comparison.now.pass_rate == pytest.approx(0.05)
    assert comparison.changed.ci95 == clustered_wilson([(0.0, 1, 1), (1.0, 1, 19)], 19 + 1 / 50)
