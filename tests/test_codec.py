"""Nouns to JSON and back, and every digest: its value, and which fields change it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from proctor.codec import (
    SuiteHasher,
    assertion_digest,
    decode,
    encode,
    hash_rows,
    hash_suite,
    judged_digest,
    prompt_digest,
    sent_digest,
    settings_digest,
    suite_digest,
    target_digest,
    unordered_digest,
)
from proctor.errors import SuiteError
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Hook,
    Hooks,
    Message,
    Output,
    Params,
    PassRule,
    Problem,
    Record,
    Repository,
    ResponseFormat,
    Selection,
    SplitRule,
    Suite,
    TargetSpec,
    Tool,
    ToolCall,
    Workspace,
    suites_and_runs,
)
from support.builders import ECHO

NOUNS = [
    noun
    for _, noun in inspect.getmembers(suites_and_runs, inspect.isclass)
    if issubclass(noun, Record) and noun is not Record
]

# --- the wire form -----------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    int: st.integers(-(2**63), 2**64 - 1),
    float: NUMBERS,
    type(None): st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
}


@cache
def any_value(kind: Any) -> st.SearchStrategy[Any]:
    """Returns a strategy for every value of a type of noun or of field."""
    if kind in PLAIN:
        return PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([any_value(argument) for argument in arguments])
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*(any_value(argument) for argument in arguments))
    if origin is tuple:
        return st.lists(any_value(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, any_value(arguments[1]), max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    hints = get_type_hints(kind)
    flat = {name: hint for name, hint in hints.items() if kind not in (hint, *get_args(hint))}
    return st.builds(
        kind, **{field.name: any_value(flat[field.name]) for field in fields(kind) if field.name in flat}
    )


@pytest.mark.slow
@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_every_noun_comes_back_from_its_json_and_gives_the_same_again(
    noun: type[Record], data: st.DataObject
) -> None:
    thing = data.draw(any_value(noun))
    json_text = encode(thing)
    back = decode(json_text, noun)
    assert back == thing
    assert encode(back) == json_text
    assert isinstance(json.loads(json_text), dict)


def test_canonical_json_sorts_keys_omits_defaults_and_writes_utf_8_without_spaces() -> None:
    case = Case(
        id="é",
        input=(Message(role="user", content="\u2028"),),
        expected={"b": [1, 2.5], "a": None},
        metadata={"z": 1, "a": {"y": True, "b": "ß"}},
    )
    assert encode(case).decode("utf-8") == (
        '{"id":"é","input":[{"role":"user","content":"\u2028"}],"expected":{"a":null,"b":[1,2.5]},'
        '"metadata":{"a":{"b":"ß","y":true},"z":1}}'
    )


@pytest.mark.parametrize("data", ["{}", '{"role": 4}', "[]", '{"role": "user", "content": null}'])
def test_json_of_another_shape_is_no_noun(data: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(data, Message)


def test_a_field_that_this_version_does_not_know_is_no_reason_to_lose_a_stored_noun() -> None:
    assert decode(b'{"text":"four","mood":"sunny"}', Output) == Output(text="four")


# --- digests: what they are --------------------------------------------------------------------------------

CASE = Case(
    id="sum-1",
    input=(
        Message(role="system", content="Answer with a number."),
        Message(role="user", content="What is 2 + 2?", name="ann"),
        Message(role="assistant", tool_calls=(ToolCall(name="add", arguments={"b": 2, "a": 2}, id="t1"),)),
    ),
    expected="4",
    criteria="It must be the number alone.",
    assertions=(
        Assertion(
            grader="exact",
            params={"value": "4", "trim": True},
            weight=2.0,
            required=0.5,
            negated=True,
            label="four",
        ),
        Assertion(grader="length", params={"max_words": 1}),
    ),
    tags=("easy",),
    category="math",
    metadata={"source": "own"},
    repeats=3,
)
TARGET = TargetSpec(
    name="openai:m-1", kind="openai", model="m-1", endpoint="http://127.0.0.1/v1", params=Params(max_tokens=9)
)
SUITE = Suite(name="sums", dialect="pramana", pass_rule=PassRule(threshold=0.8))
ROWS = [("sum-1", "sha256:1", "sha256:2"), ("é", "sha256:3", "sha256:4")]


@pytest.mark.parametrize(
    ("digest", "digits"),
    [
        (unordered_digest(CASE), "045d4a6d935517312480363020befdb3462a094516d8342d400878db3ca0ddb4"),
        (sent_digest(CASE), "8e4aa469868ba2cfa13eb290f726c9c70a14d9f2376a6240b015cb8264210dc0"),
        (
            sent_digest(replace(CASE, input=CASE.input[:2])),
            "76ca0c5837a49e8d0024ebbcec93f7ee4b66ce349bbf3d73d3433e6b46964dc7",
        ),
        (judged_digest(CASE), "244420f21a03324d166b51dbfd11c58ff8fa2f43e604be32257210af14793507"),
        (
            assertion_digest(CASE.assertions[0]),
            "8a5f847d355a9a29295b874e6a19d7ec59b38ca78ebd0e1e52ddfafd7cec0911",
        ),
        (target_digest(TARGET), "fa10a7216b0c44f8d1dcd33e5ab87078672896bdf31075c212c09296f893cce7"),
        (
            settings_digest((Selection(tags=("easy",), limit=3), 2)),
            "7f897bf724997958d69bccdf621f767fc7d867aa41551a3913ce2c5326ba763d",
        ),
        (
            prompt_digest("Is {output} kind?"),
            "122ed63b9b8e2b491bd9441479bc8fb4fe25493d66fac56ffaf74b980c98e635",
        ),
        (suite_digest(SUITE, ROWS), "9b57a30255ac520dc1c9c598875fdf3bfc084071f1c0334d32809cff36ac034b"),
        (
            suite_digest(Suite(name="none", dialect="meridian"), []),
            "8a6203f068dca1f64cad2421b58580b04e8f217d827286ff2902e68f8a423934",
        ),
    ],
)
def test_a_digest_never_changes(digest: str, digits: str) -> None:
    """Stored runs are found by these: change one only under a new number in its prefix."""
    assert digest == f"sha256:{digits}"


@pytest.mark.parametrize(
    ("digest", "hashed"),
    [
        (
            sent_digest(Case(id="x", input=(Message(role="user", content="2?"),))),
            b'proctor/sent/1\n[{"role":"user","content":"2?"}]',
        ),
        (judged_digest(Case(id="x", input=())), b"proctor/judged/1\n[null,null,[]]"),
        (
            judged_digest(Case(id="x", input=(), expected=["a"], criteria="é")),
            'proctor/judged/1\n[["a"],"é",[]]'.encode(),
        ),
        (
            assertion_digest(Assertion(grader="exact", params={"value": "4"})),
            b'proctor/assertion/1\n["exact",{"value":"4"},1.0,null,false]',
        ),
        (
            target_digest(ECHO),
            b'proctor/target/1\n["echo","",null,{"seed":42,"temperature":0.0}]',
        ),
        (settings_digest((Selection(), None)), b"proctor/settings/1\n[{},null]"),
        (prompt_digest("Kind?"), b'proctor/prompt/1\n"Kind?"'),
        (suite_digest(Suite(name="s", dialect="d"), []), b"proctor/suite/1\n[{},{}]"),
        (
            suite_digest(SUITE, ROWS[::-1]),
            'proctor/suite/1\n[{},{"threshold":0.8}]["sum-1","sha256:1","sha256:2"]'
            '["é","sha256:3","sha256:4"]'.encode(),
        ),
    ],
)
def test_a_digest_is_sha_256_over_its_prefix_and_canonical_json(digest: str, hashed: bytes) -> None:
    assert digest == f"sha256:{sha256(hashed).hexdigest()}"


# --- digests: which fields change them -------------------------------------------------------------------

SENT_DIGEST, JUDGED_DIGEST, NO_DIGEST = {"sent"}, {"judged"}, set[str]()
OTHER_FIELDS: list[tuple[str, Any, set[str]]] = [
    ("id", "sum-2", NO_DIGEST),
    ("input", CASE.input[:2], SENT_DIGEST),
    ("expected", "5", JUDGED_DIGEST),
    ("criteria", None, JUDGED_DIGEST),
    ("assertions", CASE.assertions[:1], JUDGED_DIGEST),
    ("tags", (), NO_DIGEST),
    ("category", None, NO_DIGEST),
    ("metadata", {}, NO_DIGEST),
    ("repeats", None, NO_DIGEST),
    ("pass_rule", PassRule(threshold=0.5), JUDGED_DIGEST),
    ("target", "other", SENT_DIGEST),
    ("only_targets", ("other",), NO_DIGEST),
    ("workspace", Workspace(template="t"), SENT_DIGEST),
    ("form", ResponseFormat(json=True), SENT_DIGEST),
    ("variables", ("KEY",), NO_DIGEST),
    ("vars", {"city": "Lima"}, SENT_DIGEST),
    ("prefix", "Be brief. ", SENT_DIGEST),
    ("suffix", " Be kind.", SENT_DIGEST),
    ("prompts", ("terse",), NO_DIGEST),
    ("notes", {"note": "x"}, NO_DIGEST),
    ("problems", (Problem(code="bad-json", message="The line is not JSON."),), JUDGED_DIGEST),
]


@pytest.mark.parametrize(("field", "value", "changed"), OTHER_FIELDS)
def test_a_case_is_sent_by_its_messages_and_judged_by_its_expectations(
    field: str, value: Any, changed: set[str]
) -> None:
    other = replace(CASE, **{field: value})
    assert changed == {
        name
        for name, digest in {"sent": sent_digest, "judged": judged_digest}.items()
        if digest(other) != digest(CASE)
    }


def test_every_field_of_a_case_is_looked_at_above() -> None:
    assert [field for field, _, _ in OTHER_FIELDS] == list(Case.__struct_fields__)


def sent_with(message: Message) -> str:
    return sent_digest(Case(id="x", input=(message,)))


def judged_with(assertion: Assertion) -> str:
    return judged_digest(Case(id="x", input=(), assertions=(assertion,)))


CALL = ToolCall(name="add", arguments={"a": 1}, id="t1")
PICTURE = Attachment(kind="image", path="a.png", media_type="image/png", data=b"PNG")
MESSAGE = Message(role="user", content="x", name="ann", tool_calls=(CALL,), parts=("x", PICTURE))
FALLING_BACK = replace(TARGET, options={"command": "run"}, fallbacks=(TargetSpec(name="e", kind="echo"),))


def sent_with_call(call: ToolCall) -> str:
    return sent_with(replace(MESSAGE, tool_calls=(call,)))


def sent_with_attachment(attachment: Attachment) -> str:
    return sent_with(replace(MESSAGE, parts=(attachment,)))


HOOK = Hook(command=("make",), timeout_s=1.0, cwd="x")
INSIDE = Workspace(
    template="t",
    repositories=(Repository(path="r", source="s"),),
    hooks=Hooks(before_all=HOOK),
    path="p",
)


FORM = ResponseFormat(
    json=True,
    schema={"type": "object"},
    tools=(Tool(name="add"),),
    special_tags=("_json_mode",),
    choices=("yes", "no"),
)
TOOL = Tool(name="add", description="Adds.", parameters={"type": "object"})


def sent_with_form(form: ResponseFormat) -> str:
    return sent_digest(Case(id="x", input=(), form=form))


def sent_with_tool(tool: Tool) -> str:
    return sent_with_form(ResponseFormat(tools=(tool,)))


def sent_with_workspace(workspace: Workspace) -> str:
    return sent_digest(Case(id="x", input=(), workspace=workspace))


@pytest.mark.parametrize(
    ("digest", "thing", "ignored"),
    [
        (sent_with, MESSAGE, set()),
        (sent_with_call, CALL, set()),
        (assertion_digest, CASE.assertions[0], {"label"}),
        (judged_with, CASE.assertions[0], {"label"}),
        (target_digest, FALLING_BACK, {"name", "judge", "workers", "retries"}),
        (sent_with_attachment, PICTURE, set()),
        (sent_with_workspace, INSIDE, set()),
        (sent_with_form, FORM, set()),
        (sent_with_tool, TOOL, set()),
    ],
)
def test_a_digest_changes_with_every_field_that_counts_and_with_no_other(
    digest: Callable[[Any], str], thing: Any, ignored: set[str]
) -> None:
    for field in fields(type(thing)):
        value = getattr(thing, field.name)
        other = {
            str: f"{value}!",
            bool: not value,
            dict: {"other": 1},
            tuple: (),
            Params: Params(),
            bytes: b"other",
            Hooks: Hooks(),
        }
        changed = replace(thing, **{field.name: other.get(type(value), 0.125)})
        assert changed != thing
        assert (digest(changed) == digest(thing)) == (field.name in ignored), field.name


@pytest.mark.parametrize(
    "params", [Params(), Params(temperature=0.7), Params(seed=1), Params(temperature=None)]
)
def test_a_targets_digest_changes_with_every_parameter(params: Params) -> None:
    assert target_digest(replace(TARGET, params=params)) != target_digest(TARGET)


def test_the_folder_of_a_targets_file_does_not_count() -> None:
    first, second = (replace(TARGET, options={"folder": folder, "env": {}}) for folder in ("/here", "/there"))
    assert target_digest(first) == target_digest(second)
    assert target_digest(first) != target_digest(TARGET)


def test_the_order_of_messages_and_assertions_counts() -> None:
    other = replace(CASE, input=CASE.input[::-1], assertions=CASE.assertions[::-1])
    assert sent_digest(other) != sent_digest(CASE)
    assert judged_digest(other) != judged_digest(CASE)


def test_the_order_of_keys_does_not_count() -> None:
    first = Assertion(grader="g", params={"a": {"x": 1, "y": 2}, "b": 3})
    second = Assertion(grader="g", params={"b": 3, "a": {"y": 2, "x": 1}})
    assert assertion_digest(first) == assertion_digest(second)
    assert judged_digest(replace(CASE, expected={"a": 1, "b": 2})) == judged_digest(
        replace(CASE, expected={"b": 2, "a": 1})
    )


def test_a_default_that_is_written_out_does_not_count() -> None:
    plain = Assertion(grader="g")
    spelled = Assertion(grader="g", params={}, required=None, negated=False, label=None)
    assert assertion_digest(plain) == assertion_digest(spelled)
    assert target_digest(TARGET) == target_digest(
        replace(TARGET, params=Params(seed=int("42"), max_tokens=9))
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (assertion_digest(Assertion(grader="g")), assertion_digest(Assertion(grader="g", weight=float("1")))),
        (
            target_digest(TargetSpec(name="t", kind="echo")),
            target_digest(TargetSpec(name="t", kind="echo", params=Params(temperature=float("0")))),
        ),
    ],
    ids=["weight", "temperature"],
)
def test_equal_nouns_have_equal_digests_also_with_a_number_at_its_default(first: str, second: str) -> None:
    assert first == second


@pytest.mark.parametrize(
    "other",
    [
        replace(SUITE, name="other"),
        replace(SUITE, dialect="meridian"),
        replace(SUITE, version="v2", description="Sums.", case_count=2),
        replace(SUITE, digest="sha256:0", content="sha256:0", suite_hash="sha256:0"),
        replace(SUITE, split_rule=SplitRule()),
    ],
)
def test_a_suites_name_dialect_version_and_split_do_not_count(other: Suite) -> None:
    assert suite_digest(other, ROWS) == suite_digest(SUITE, ROWS)


@given(
    st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5).flatmap(
        lambda rows: st.tuples(st.just(rows), st.permutations(rows))
    )
)
def test_the_order_of_a_suites_cases_does_not_count(orders: tuple[list[Any], list[Any]]) -> None:
    assert suite_digest(SUITE, orders[0]) == suite_digest(SUITE, iter(orders[1]))


@pytest.mark.parametrize(
    ("suite", "rows"),
    [
        (replace(SUITE, pass_rule=PassRule()), ROWS),
        (replace(SUITE, pass_rule=PassRule(threshold=0.81)), ROWS),
        (SUITE, ROWS[:1]),
        (SUITE, [*ROWS, ROWS[0]]),
        (SUITE, [("sum-2", *ROWS[0][1:]), ROWS[1]]),
        (SUITE, [("sum-1", "sha256:0", "sha256:2"), ROWS[1]]),
        (SUITE, [("sum-1", "sha256:1", "sha256:0"), ROWS[1]]),
        (SUITE, []),
    ],
)
def test_a_suites_digest_changes_with_its_cases_and_its_pass_rule(suite: Suite, rows: list[Any]) -> None:
    assert suite_digest(suite, rows) != suite_digest(SUITE, ROWS)


def test_two_kinds_of_digest_of_the_same_content_differ() -> None:
    assert assertion_digest(Assertion(grader="x")) != settings_digest(Assertion(grader="x"))


# --- the published hash of a suite -------------------------------------------------------------------------

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "suite_hash.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["what"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_suite_has_the_hash_that_was_published(
    vector: dict[str, str], ending: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_bytes(vector["text"].encode("utf-8").replace(b"\n", ending))
    assert hash_suite(path) == hash_suite(str(path)) == vector["hash"]


def write_suite(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "suite.jsonl"
    path.write_bytes(data)
    return path


def test_a_byte_order_mark_and_a_missing_last_line_end_do_not_count(tmp_path: Path) -> None:
    data = VECTORS[0]["text"].encode("utf-8")
    assert hash_suite(write_suite(tmp_path, b"\xef\xbb\xbf" + data.rstrip(b"\n"))) == VECTORS[0]["hash"]


@pytest.mark.parametrize(
    ("rows", "hashed"),
    [
        ([], "[]"),
        ([{"id": "b"}, {"id": "a"}], '[{"id":"a"},{"id":"b"}]'),
        ([{"id": "a", "n": 1}, {"id": "a", "n": 0}], '[{"id":"a","n":1},{"id":"a","n":0}]'),
        (
            [{"id": "B"}, {"id": "a"}, {"id": "é"}, {"id": "z"}],
            '[{"id":"B"},{"id":"a"},{"id":"z"},{"id":"\\u00e9"}]',
        ),
        ([{"n": 1.0, "id": "a", "m": 1e30, "k": 10}], '[{"id":"a","k":10,"m":1e+30,"n":1.0}]'),
        ([{"id": "a", "t": "😀\u2028/\x7f"}], '[{"id":"a","t":"\\ud83d\\ude00\\u2028/\\u007f"}]'),
        ([{"id": "a", "t": "\ud800"}], '[{"id":"a","t":"\\ud800"}]'),
        ([{"id": "a", "b": {"d": None, "c": [True, []]}}], '[{"b":{"c":[true,[]],"d":null},"id":"a"}]'),
    ],
)
def test_the_hash_is_over_the_sorted_rows_as_one_array_of_ascii(
    rows: list[dict[str, Any]], hashed: str
) -> None:
    assert hash_rows(rows) == f"sha256:{sha256(hashed.encode('ascii')).hexdigest()}"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"{", 1),
        (b'{"id": "a"}\n\n{"id": "b"', 3),
        (b'{"id": "a"}\r\n[]', 2),
        (b'{"id": 4}', 1),
        (b'{"name": "a"}', 1),
        (b'{"id": "a"}\n"b"', 2),
        (b'{"id": "a"}\n{"id": "\xff"}', 2),
        (b"\n\n" + b"[" * 100_000, 3),
        (b'{"id": "a", "n": ' + b"9" * 5000 + b"}", 1),
    ],
)
def test_a_line_that_cannot_be_hashed_is_named(data: bytes, line: int, tmp_path: Path) -> None:
    path = write_suite(tmp_path, data)
    with pytest.raises(SuiteError) as raised:
        hash_suite(path)
    (problem,) = raised.value.problems
    assert (problem.path, problem.line, problem.level, problem.code) == (str(path), line, "error", "bad-json")
    assert problem.message.startswith("The line is not ")
    assert problem.message.endswith(".")


def test_a_file_that_is_not_there_cannot_be_hashed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hash_suite(tmp_path / "suite.jsonl")


def test_rows_of_a_suite_give_the_same_digest_one_by_one_and_together() -> None:
    rows = [("a\nb\r", "sha256:1", "sha256:2"), ('é\u2028"\\', "sha256:3", "sha256:4")]
    suite = Suite(name="suite", dialect="meridian")
    single, together = SuiteHasher(suite), SuiteHasher(suite)
    for row in rows:
        single.add(row)
    together.add_all(())
    together.add_all(rows)
    assert single.digest() == together.digest()
