"""Lines of a bundle: written once, read back, and refused when they are written in any other way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import json_in_key_order, sent_digest
from proctor.model import (
    Attachment,
    Case,
    Evidence,
    Judgment,
    Message,
    Output,
    ResponseFormat,
    Score,
    Suite,
    ToolCall,
    Trial,
    Usage,
    Verdict,
)
from proctor.proof import merkle
from proctor.proof.records import (
    CaseLine,
    RedactedLine,
    TrialLine,
    case_line,
    header_line,
    parse_case_line,
    parse_header,
    parse_trial_line,
    redacted_line,
    trial_line,
)
from support.builders import make_case, make_trial

SALT = "5a" * 32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, 1e21, 1e-7])
data = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(texts | st.just("$number"), inner, max_size=2)
    ),
    max_leaves=4,
)
objects = st.dictionaries(texts, data, max_size=2)
attachments = st.builds(Attachment, kind=st.just("file"), path=texts, data=st.binary(max_size=4))
calls = st.builds(ToolCall, name=texts, arguments=objects, output=data, duration_ms=floats | st.none())
messages = st.builds(
    Message,
    role=texts,
    content=texts,
    tool_calls=st.tuples(calls) | st.just(()),
    parts=st.lists(texts | attachments, max_size=2).map(tuple),
)
judgments = st.builds(Judgment, judge=texts, value=floats | st.none(), raw=texts)
scores = st.builds(
    Score,
    grader=texts,
    name=texts,
    value=st.floats(0, 1) | st.none(),
    outcome=st.sampled_from(Verdict),
    weight=floats,
    reason=texts,
    entries=st.lists(st.builds(Evidence, text=texts, passed=st.booleans()), max_size=2).map(tuple),
    judgments=st.lists(judgments, max_size=1).map(tuple),
    details=objects,
)
outputs = st.builds(
    Output,
    text=texts,
    messages=st.lists(messages, max_size=1).map(tuple),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 2**60)),
    latency_ms=floats,
    cost_usd=floats | st.none(),
)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
trials = st.builds(
    Trial,
    case_id=texts,
    position=st.integers(0, 9),
    repeat=st.integers(0, 3),
    sent=texts,
    output=outputs | st.none(),
    scores=st.lists(scores, max_size=2).map(tuple),
    started_at=moments,
)
cases = st.builds(
    Case,
    id=texts,
    input=st.lists(messages, max_size=2).map(tuple),
    expected=data,
    metadata=objects,
    form=st.none() | st.builds(ResponseFormat, schema=objects | st.none()),
)


@pytest.mark.slow
@given(trials, st.sampled_from(Verdict), st.integers(0, 2**40))
def test_a_trial_is_read_back(trial: Trial, verdict: Verdict, index: int) -> None:
    read = parse_trial_line(trial_line(index, SALT, trial, verdict))
    assert read == TrialLine(index, SALT, trial, verdict)


@given(cases)
def test_a_case_is_read_back(case: Case) -> None:
    assert parse_case_line(case_line(3, SALT, case, "sha256:1")) == CaseLine(3, SALT, case, "sha256:1")


@pytest.mark.slow
@given(cases)
def test_a_case_is_read_back_with_its_keys_in_the_order_in_which_they_are_sent(case: Case) -> None:
    read = parse_case_line(case_line(3, SALT, case, sent_digest(case)))
    assert isinstance(read, CaseLine)
    assert (read.case, json_in_key_order(read.case), read.written) == (
        case,
        json_in_key_order(case),
        json_in_key_order(case),
    )
    assert sent_digest(read.case) == read.sent


@pytest.mark.parametrize(
    "key_order",
    [
        "",
        "no JSON",
        "[[" * 100_000,
        '[[],{"schema":{"b":1,"a":2}}]',  # other values
        '[[],{"schema":{"b":1,"a":1.0}}]',  # another type
        '[[],{"schema":{"b":1,"a":1,"a":1}}]',
        '[[], {"schema":{"b":1,"a":1}}]',  # a space
        '[[],{"schema":{"a":1,"b":1}}]',  # sorted
        '[[{"role":"user"}],{"schema":{"b":1,"a":1}}]',  # an input without tool calls
    ],
)
def test_an_order_that_is_not_that_of_what_the_case_sends_is_refused(key_order: str) -> None:
    case = Case(id="c", input=(Message(role="user"),), form=ResponseFormat(schema={"b": 1, "a": 1}))
    line = case_line(0, SALT, case, sent_digest(case))
    assert b'"written":' in line
    with pytest.raises(ValueError, match="`written`"):
        parse_case_line(edit_line(line, written=key_order))


@pytest.mark.slow
@given(trials, st.sampled_from(Verdict))
def test_a_line_is_json_that_any_reader_knows(trial: Trial, verdict: Verdict) -> None:
    line = json.loads(trial_line(0, SALT, trial, verdict))
    assert list(line) == ["index", "salt", "trial", "verdict"]
    assert line["trial"]["position"] == trial.position
    assert line["verdict"] == verdict.value


def test_a_header_has_no_folder() -> None:
    suite = Suite(name="s", dialect="meridian", folder="/home/somebody/suites", case_count=2)
    assert b"somebody" not in header_line(suite)
    assert parse_header(header_line(suite)) == Suite(name="s", dialect="meridian", case_count=2)


def test_a_hidden_line_has_the_leaf_of_the_whole_one() -> None:
    line = case_line(1, SALT, make_case(), "sha256:1")
    redacted = redacted_line(1, merkle.leaf_hash(line))
    assert parse_case_line(redacted) == RedactedLine(1, merkle.leaf_hash(line).hex())
    assert parse_trial_line(redacted) == RedactedLine(1, merkle.leaf_hash(line).hex())


def edit_line(line: bytes, **fields: Any) -> bytes:
    """Replaces fields of a line and writes it as canonical JSON; None removes a field."""
    whole = {**json.loads(line), **fields}
    fields_to_write = {name: value for name, value in whole.items() if value is not None}
    return json.dumps(fields_to_write, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"extra": 1},
        {"index": 1.5},
        {"index": None},
        {"salt": "00"},
        {"salt": "5A" * 32},
        {"salt": None},
        {"verdict": "great"},
        {"verdict": None},
        {"trial": {}},
        {
            "trial": {
                "case_id": "c",
                "position": 0,
                "sent": "",
                "started_at": "2026-03-01T12:00:00Z",
                "new": 1,
            }
        },
        {"trial": {"case_id": "c", "position": 0, "sent": "", "started_at": "2026-03-01T12:00:00+00:00"}},
        {
            "trial": {
                "case_id": "c",
                "position": 0,
                "sent": "",
                "started_at": "2026-03-01T12:00:00Z",
                "repeat": 0,
            }
        },
        {"leaf": "00" * 32},
    ],
)
def test_a_trial_written_otherwise_is_refused(fields: dict[str, Any]) -> None:
    line = trial_line(0, SALT, make_trial("4"), Verdict.PASS)
    with pytest.raises(ValueError, match=r"."):
        parse_trial_line(edit_line(line, **fields))


@pytest.mark.parametrize("leaf", ["", "00", "AA" * 32, "zz" * 32, " " * 64])
def test_a_leaf_that_is_no_digest_is_refused(leaf: str) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        parse_case_line(edit_line(redacted_line(0, b"1" * 32), leaf=leaf))


def test_spaces_and_ends_are_refused() -> None:
    line = trial_line(0, SALT, make_trial("4"), Verdict.PASS)
    for other in (line + b"\n", b" " + line, line.replace(b":", b": "), line[:-1]):
        with pytest.raises(ValueError, match=r"."):
            parse_trial_line(other)
