"""Trials of then beside those of now: each in one part, and a change counted the other way round."""

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


def one(name: str, verdict: Verdict, answer: str | None = "x", repeat: int = 0) -> AnswerSummary:
    return AnswerSummary(name, repeat, None, verdict, None if answer is None else answer.encode())


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[AnswerSummary, AnswerSummary]]:
    keys = draw(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2)), unique=True))
    some = st.builds(
        lambda verdict, answer: (verdict, answer), st.sampled_from(Verdict), st.sampled_from(["x", "y", None])
    )
    made = [(name, repeat, draw(some), draw(some)) for name, repeat in keys]
    return [(one(n, a[0], a[1], r), one(n, b[0], b[1], r)) for n, r, a, b in made]


@given(pairs())
def test_every_trial_is_in_one_part(both: list[tuple[AnswerSummary, AnswerSummary]]) -> None:
    found = compare_replay((a for a, _ in both), (b for _, b in both))
    compared = found.identical.count + found.same_verdict.count + found.changed.count
    assert compared + len(found.not_measured) + len(found.not_measured_before) == found.total == len(both)
    assert found.changed.count == len(found.now_failing) + len(found.now_passing)
    assert found.then.total == found.now.total == len(both)
    shares = [part.share for part in (found.identical, found.same_verdict, found.changed)]
    assert (sum(share or 0 for share in shares) == pytest.approx(1)) if compared else shares == [None] * 3


@given(pairs())
def test_the_other_way_round_what_failed_passes(both: list[tuple[AnswerSummary, AnswerSummary]]) -> None:
    there = compare_replay((a for a, _ in both), (b for _, b in both))
    back = compare_replay((b for _, b in both), (a for a, _ in both))
    assert [s.name for s in there.now_failing] == [s.name for s in back.now_passing]
    assert (there.identical, there.same_verdict, there.changed) == (
        back.identical,
        back.same_verdict,
        back.changed,
    )


@pytest.mark.parametrize(
    ("before", "after", "part", "code"),
    [
        (one("a", P), one("a", P), "identical", ExitCode.OK),
        (one("a", F, "x"), one("a", F, "y"), "same_verdict", ExitCode.OK),
        (one("a", P), one("a", F), "now_failing", ExitCode.FAILED),  # the same words, judged otherwise
        (one("a", F, "x"), one("a", P, "y"), "now_passing", ExitCode.FAILED),
        (one("a", P), one("a", E, None), "not_measured", ExitCode.NOT_MEASURED),
        (one("a", P), one("a", U), "not_measured", ExitCode.NOT_MEASURED),
        (one("a", E, None), one("a", E, None), "not_measured", ExitCode.NOT_MEASURED),
        (one("a", P), one("b", P), "not_measured", ExitCode.NOT_MEASURED),
        (one("a", P), one("a", P, repeat=1), "not_measured", ExitCode.NOT_MEASURED),
        (one("a", E, None), one("a", P), "not_measured_before", ExitCode.NOT_MEASURED),
    ],
)
def test_what_a_pair_comes_to(before: AnswerSummary, after: AnswerSummary, part: str, code: ExitCode) -> None:
    found: Any = compare_replay([before], [after])
    names = ("identical", "same_verdict", "now_failing", "now_passing", "not_measured", "not_measured_before")
    counts = {name: getattr(found, name) for name in names}
    sizes = {name: len(got) if isinstance(got, tuple) else got.count for name, got in counts.items()}
    assert sizes == {name: int(name == part) for name in names}
    assert found.exit_code is code


def test_what_the_bundle_itself_had_not_measured_is_no_fault_of_now() -> None:
    found = compare_replay([one("a", E, None), one("b", P)], [one("a", P), one("b", P)])
    assert found.exit_code is ExitCode.OK
    assert found.not_measured_before == (one("a", E, None),)


def test_what_was_not_measured_outranks_what_changed_and_what_did_not() -> None:
    found = compare_replay([one("a", P), one("b", P)], [one("a", P), one("b", E, None)])
    assert (found.identical.count, found.exit_code) == (1, ExitCode.NOT_MEASURED)


def test_what_was_not_asked_before_does_not_count() -> None:
    assert compare_replay([one("a", P)], [one("a", P), one("b", F)]).total == 1


def test_an_interval_counts_cases_and_not_repeats() -> None:
    before = [one(name, P, repeat=repeat) for name in "ab" for repeat in range(10)]
    after = [one(name, P, repeat=repeat) for name in "ab" for repeat in range(10)]
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
    before = [one("many", P, repeat=n) for n in range(50)] + [one(f"c{n}", P) for n in range(19)]
    after = [one("many", P, repeat=n) for n in range(50)] + [one(f"c{n}", F) for n in range(19)]
    comparison = compare_replay(before, after)
    assert comparison.changed.count == 19
    assert comparison.changed.share == pytest.approx(0.95)
    assert comparison.now.pass_rate == pytest.approx(0.05)
    assert comparison.changed.ci95 == clustered_wilson([(0.0, 1, 1), (1.0, 1, 19)], 19 + 1 / 50)
