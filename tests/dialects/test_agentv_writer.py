"""Suites written in the dialect agentv: what it says is read as it was, and what it cannot say is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import assertion_digest, decode, encode, judged_digest, sent_digest
from proctor.dialects.agentv.dialect import DIALECT
from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION
from proctor.dialects.agentv.write.suite import render
from proctor.dialects.shared.attachments import build_attachment
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Hook,
    Hooks,
    Message,
    PassRule,
    Problem,
    Repository,
    ResponseFormat,
    SplitRule,
    Suite,
    SuiteDefaults,
    Tool,
    ToolCall,
    Workspace,
)
from proctor.protocols import RenderedFile
from proctor.yaml12 import load
from support import media
from support.suite_files import find_in, make_source, split_items

SUITE = Suite(name="s", dialect="agentv", pass_rule=PassRule(threshold=0.8))


@dataclass
class Written:
    """What was rendered, and what it is read as."""

    files: dict[str, bytes] = field(default_factory=dict)
    told: list[Problem] = field(default_factory=list)
    suite: Suite = SUITE
    cases: list[Case] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple[str | None, str | None]]:
        return [(problem.case, problem.field) for problem in self.told]

    @property
    def tests(self) -> Any:
        return load(self.files[""].decode())["tests"]


def written(cases: Iterable[Case], suite: Suite = SUITE, *, lossy: bool = False) -> Written:
    made = Written()
    for item in render(suite, cases, lossy=lossy):
        if isinstance(item, Problem):
            made.told.append(item)
        else:
            made.files[item.path] = made.files.get(item.path, b"") + item.data

    find = find_in(made.files)
    source = make_source(
        made.files[""], "s.yaml", find_file=lambda path: find(normpath(path)), environ={"WHO": "you"}
    )
    made.suite, made.cases, problems = split_items(DIALECT.read(source))
    made.wrong = [str(problem) for problem in problems if problem.level == "error"]
    return made


def make(text: str = "Which day is it?", **fields: Any) -> Case:
    given: dict[str, Any] = {"id": "a", "input": (Message(role="user", content=text),), "criteria": "c"}
    return Case(**given | {"assertions": (DEFAULT_ASSERTION,)} | fields)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def assert_same(case: Case, suite: Suite = SUITE) -> Written:
    """The case is written without a word and read as it was."""
    made = written([case], suite)
    assert [problem.message for problem in made.told] == []
    assert made.wrong == []
    (read,) = made.cases
    assert sent_digest(read) == sent_digest(case)
    assert judged_digest(read) == judged_digest(case)
    for name in ("id", "tags", "category", "target", "only_targets", "repeats", "notes", "variables"):
        assert getattr(read, name) == getattr(case, name)
    assert encode({**read.metadata, **case.metadata}) == encode(read.metadata)
    return made


# --- what can be said ---------------------------------------------------------------------------------------

CHARACTERS = st.characters(exclude_categories=["Cs", "Co"])
TEXTS = st.text(CHARACTERS, max_size=12)
WORDS = st.text(CHARACTERS, min_size=1, max_size=12).filter(str.strip)
NAMES = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=6)
SHARES = st.floats(0, 1)
AMOUNTS = st.floats(0, 1e9)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


FILES = st.builds(
    build_attachment,
    st.just("file"),
    NAMES.map(lambda name: f"files/{name}-{len(name)}"),
    TEXTS.map(str.encode),
)
BLOBS = st.builds(
    build_attachment, st.just("image"), NAMES.map(lambda name: f"images/{name}.png"), st.binary(max_size=9)
).filter(lambda made: made.media_type.startswith("image/"))
TOOL_CALLS = st.builds(
    ToolCall,
    name=NAMES,
    arguments=OBJECTS,
    id=st.none() | TEXTS,
    output=VALUES,
    duration_ms=st.none() | AMOUNTS,
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
PLAIN = st.builds(
    Message,
    role=ROLES,
    content=WORDS,
    name=st.none() | TEXTS,
    tool_calls=st.lists(TOOL_CALLS, max_size=2).map(tuple),
)


@st.composite
def with_files(draw: st.DrawFn) -> Message:
    parts = [*draw(st.lists(TEXTS | FILES | BLOBS, max_size=3)), draw(FILES | BLOBS)]
    content = "\n\n".join(part for part in parts if isinstance(part, str))
    return Message(role="user", content=content, parts=tuple(parts))


def without_conflicts(messages: list[Message]) -> bool:
    found: dict[str, Attachment] = {}
    every = [part for one in messages for part in one.parts if isinstance(part, Attachment)]
    return all(found.setdefault(one.path, one) == one for one in every)


@pytest.mark.slow
@given(
    messages=st.lists(PLAIN | with_files(), min_size=1, max_size=3).filter(without_conflicts),
    expected=TEXTS | OBJECTS | st.lists(VALUES, min_size=1, max_size=2),
)
def test_messages_files_and_expected_values_are_said(messages: list[Message], expected: Any) -> None:
    made = assert_same(make(input=tuple(messages), expected=expected))
    paths = [part.path for one in messages for part in one.parts if isinstance(part, Attachment)]
    assert set(made.files) == {"", *paths}


PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HOOKS = st.builds(
    Hook,
    command=st.lists(TEXTS, max_size=3).map(lambda rest: ("tool", *rest)),
    timeout_s=st.none() | st.integers(1, 10**7).map(lambda millis: millis / 1000),
    cwd=st.none() | PATHS,
    reset=st.sampled_from(["none", "fast", "strict"]),
)
REPOSITORIES = st.builds(
    Repository,
    path=PATHS,
    source=PATHS,
    local=st.booleans(),
    ref=st.just("HEAD") | NAMES,
    ancestor=st.integers(0, 9),
    depth=st.none() | st.integers(1, 9),
    sparse=st.lists(TEXTS, max_size=2).map(tuple),
)
WORKSPACES = st.builds(
    Workspace,
    template=PATHS,
    isolation=st.sampled_from(["shared", "per_test"]),
    repositories=st.lists(REPOSITORIES, max_size=2, unique_by=lambda one: one.path).map(tuple),
    hooks=st.builds(Hooks, before_all=HOOKS, after_each=st.none() | HOOKS),
) | st.builds(Workspace, path=PATHS)


@pytest.mark.slow
@given(
    fields=some(
        workspace=WORKSPACES,
        metadata=OBJECTS.filter(lambda metadata: "tags" not in metadata),
        category=TEXTS.filter(bool),
        target=WORDS,
        only_targets=st.lists(TEXTS, min_size=1, max_size=2).map(tuple),
        pass_rule=SHARES.map(lambda share: PassRule(threshold=share)),
        criteria=WORDS,
        tags=st.lists(TEXTS, unique=True, max_size=3).map(tuple),
        notes=some(window_size=st.integers(1, 3), note=TEXTS, description=TEXTS),
    )
)
def test_how_a_case_is_run_and_what_it_belongs_to_is_said(fields: dict[str, Any]) -> None:
    assert_same(make(**fields))


@pytest.mark.slow
@given(
    fields=some(
        description=TEXTS,
        declared_version=TEXTS.filter(bool),
        pass_rule=SHARES.map(lambda share: PassRule(threshold=share)),
        repeats_rule=st.sampled_from(["any", "mean", "lower_bound"]),
        defaults=st.builds(
            SuiteDefaults,
            targets=st.lists(NAMES, max_size=2, unique=True).map(tuple),
            concurrency=st.none() | st.integers(1, 50),
            budget_usd=st.none() | st.floats(0.01, 99),
            cache=st.none() | st.booleans(),
        ),
        notes=some(
            author=TEXTS,
            **{"execution.cache_path": TEXTS, "workspace.docker": st.just({"image": "x"})},
        ),
    ),
    repeats=st.integers(1, 9),
)
def test_a_header_is_said(fields: dict[str, Any], repeats: int) -> None:
    suite = replace(SUITE, **fields)
    made = written([make(repeats=repeats if "repeats_rule" in fields else None)], suite)
    assert (made.told, made.wrong) == ([], [])
    for name in ("name", "description", "declared_version", "pass_rule", "repeats_rule", "defaults", "notes"):
        assert getattr(made.suite, name) == getattr(suite, name)


# --- how it is said -----------------------------------------------------------------------------------------


def test_a_suite_is_written_for_people() -> None:
    one = make(
        expected="Monday\nor Tuesday",
        assertions=(Assertion(grader="contains", params={"value": "day"}, required=0.8),),
        tags=("calendar",),
        metadata={"since": "2024-01-01"},
    )
    assert written([one, make(id="b")]).files[""].decode() == (
        "name: s\n"
        "tests:\n"
        "  - id: a\n"
        "    criteria: c\n"
        "    input: Which day is it?\n"
        "    expected_output: |-\n"
        "      Monday\n"
        "      or Tuesday\n"
        "    assertions:\n"
        "      - type: contains\n"
        "        value: day\n"
        "        required: true\n"
        "    metadata:\n"
        '      since: "2024-01-01"\n'
        "      tags:\n"
        "        - calendar\n"
        "  - id: b\n"
        "    criteria: c\n"
        "    input: Which day is it?\n"
    )


@pytest.mark.parametrize(
    ("pattern", "written_as"),
    [
        ({"pattern": r"^[0-9]+\Z"}, {"value": r"^[0-9]+$"}),
        ({"pattern": r"[0-9A-Za-z0-9_\-](?a:\b)"}, {"value": r"[0-9A-Za-z0-9_\-]\b"}),
        ({"pattern": r"(?P<a>x)(?P=a)"}, {"value": r"(?<a>x)\k<a>"}),
        ({"pattern": r"\U0001f600", "flags": "i"}, {"value": r"\u{1f600}", "flags": "iu"}),
        ({"pattern": r"\A(?:ab)"}, {"value": "ab", "flags": "y"}),
        ({"pattern": r"[$](?P<b>\\Z)"}, {"value": r"[$](?<b>\\Z)"}),
        ({"pattern": r"a$", "flags": "m"}, {"value": "a$", "flags": "m"}),
    ],
)
def test_a_pattern_is_written_as_javascript_has_it(pattern: Any, written_as: Any) -> None:
    made = assert_same(make(assertions=(Assertion(grader="regex", params=pattern),)))
    (row,) = made.tests[0]["assertions"]
    assert {name: row[name] for name in row if name != "type"} == written_as


def test_a_suite_without_cases_has_an_empty_list() -> None:
    assert written([]).files[""] == b"name: s\ntests: []\n"
    assert written([make("")]).files[""] == b"name: s\ntests: []\n"


def test_tags_that_a_suite_gives_its_tests_are_not_put_into_metadata_that_hooks_see() -> None:
    place = Workspace(template="t")
    own = make(id="b", workspace=place, tags=("all", "own"), metadata={"tags": ["own"]})
    made = written([make(workspace=place, tags=("all",)), own, make(id="c", tags=("all", "more"))])
    assert made.told == []
    assert [(case.tags, case.metadata) for case in made.cases] == [
        (("all",), {}),
        (("all", "own"), {"tags": ["own"]}),
        (("all", "more"), {"tags": ["more"]}),
    ]


# --- files --------------------------------------------------------------------------------------------------


def attaching(path: str, text: str | None = "x", **fields: Any) -> Message:
    part = Attachment(**{"kind": "file", "path": path, "text": text} | fields)
    return Message(role="user", content="See.", parts=(part, "See."))


def test_a_file_of_several_cases_is_written_once() -> None:
    items = list(
        render(SUITE, [make(id=str(n), input=(attaching("a/b.md"),)) for n in range(3)], lossy=False)
    )
    assert [item.path for item in items if isinstance(item, RenderedFile) and item.path] == ["a/b.md"]


@pytest.mark.parametrize(
    ("kind", "path", "data"),
    [
        ("audio", "a.mp3", media.MP3),
        ("audio", "a/speech", media.WAV),
        ("audio", "a.mp4", media.MP4),
        ("video", "a.mp4", media.MP4),
        ("video", "clip", media.WEBM),
        ("file", "a.mp3", media.MP3),
    ],
)
def test_audio_and_videos_come_back_as_they_were(kind: Any, path: str, data: bytes) -> None:
    part = build_attachment(kind, path, data)
    assert_same(make(input=(Message(role="user", content="See.", parts=(part, "See.")),)))


@pytest.mark.parametrize("text", ["\ufeffmark", "a\r\nb", "a\r\r\nb\r", "", "é\x85\u2028"])
def test_a_file_is_read_as_the_text_that_it_was(text: str) -> None:
    assert_same(make(input=(attaching("./a.md", text),)))


@pytest.mark.parametrize(
    "message",
    [
        *(
            attaching(path)
            for path in ("../a.md", "/a.md", "a/../../b", "C:/a", "a\\b", "", "a/", ".", "a\0")
        ),
        attaching("a.md", "${{ WHO }}", media_type="text/markdown"),
        attaching("a.bin", None, data=b"text", media_type="application/octet-stream"),
        attaching("a.png", None, kind="image", data=b"\xff\xd8\xff", media_type="image/png"),
        attaching("a.tiff", None, kind="image", data=b"\xff", media_type="image/tiff"),
    ],
)
def test_a_file_that_cannot_lie_beside_the_suite_is_named(message: Message) -> None:
    made = written([make(input=(message,))])
    assert made.fields == [("a", "input[0]")]
    assert "a" not in {case.id for case in made.cases}
    assert set(made.files) == {""}


@pytest.mark.parametrize(
    "second", [attaching("a/b.md", "other"), attaching("a/b.md/c.md"), attaching("a")], ids=repr
)
def test_two_files_that_want_the_same_place_are_named(second: Message) -> None:
    made = written([make(input=(attaching("a/b.md"),)), make(id="b", input=(second,))])
    assert [case for case, _ in made.fields] == ["b"]
    assert [case.id for case in made.cases] == ["a"]


# --- what cannot be said ------------------------------------------------------------------------------------

ONE = Assertion(grader="contains", params={"value": "x"})
DEEP: dict[str, Any] = {}
for _ in range(70):
    DEEP = {"a": DEEP}


def judged(**fields: Any) -> tuple[Assertion, ...]:
    return (replace(ONE, **fields),)


CHECKS: list[tuple[str, dict[str, Any]]] = [
    ("number", {"value": 4.0}),
    ("length", {"max_words": 3}),
    ("json_schema", {"schema": {}}),
    ("refusal", {}),
    ("rubric", {"rubric": "kind"}),
    ("llm_judge", {"prompt": "kind?"}),
    ("instructions", {}),
    ("contains", {"value": ""}),
    ("contains", {"value": "x", "ignore_case": False}),
    ("contains_any", {"values": []}),
    ("exact", {"value": "x", "ignore_case": True}),
    ("is_json", {}),
    ("regex", {"pattern": "a$"}),
    ("regex", {"pattern": "a", "flags": "x"}),
    ("regex", {"pattern": "("}),
    ("regex", {"pattern": 3}),
    ("regex", {"pattern": "(?i)a"}),
    ("regex", {"pattern": r"\d"}),
    ("llm_grader", {"prompt": "prompts/none.md"}),
    ("llm_grader", {}),
    ("rubrics", {"items": []}),
    ("rubrics", {"items": "x"}),
    ("program", {"command": []}),
    ("composite", {"members": [{"name": "m", "assertion": {"grader": "number", "params": {}}}],
                   "aggregator": {"type": "weighted_average"}}),
    ("composite", {"members": [{"name": "m"}], "aggregator": {"type": "weighted_average"}}),
    ("composite", {"members": []}),
    ("tool_trajectory", {"mode": "any_order"}),
]  # fmt: skip
LOSABLE: list[tuple[str, dict[str, Any]]] = [
    *(
        ("assertions[0]", {"assertions": (Assertion(grader=grader, params=params),)})
        for grader, params in CHECKS
    ),
    ("assertions", {"assertions": ()}),
    ("assertions[0]", {"assertions": judged(pass_at=0.0)}),
    ("assertions[0]", {"assertions": judged(required=0.5, pass_at=0.8)}),
    ("assertions[0]", {"assertions": judged(required=0.0)}),
    ("assertions[0].label", {"assertions": judged(label=" ")}),
    ("assertions[0]", {"assertions": judged(weight=-1.0)}),
    ("assertions[1]", {"assertions": (ONE, Assertion(grader="number", params={"value": 4.0}))}),
    ("expected", {"expected": 42}),
    ("expected", {"expected": True}),
    ("expected", {"expected": []}),
    ("expected", {"expected": [{"type": "text", "value": "x"}]}),
    ("criteria", {"criteria": " "}),
    ("category", {"category": ""}),
    ("pass_rule", {"pass_rule": PassRule()}),
    ("pass_rule", {"pass_rule": PassRule(threshold=1.5)}),
    ("target", {"target": " "}),
    ("form", {"form": ResponseFormat(json=True)}),
    ("form", {"form": ResponseFormat(tools=(Tool(name="t"),))}),
    ("form", {"form": ResponseFormat(schema={})}),
    ("repeats", {"repeats": 3}),
    ("notes", {"notes": {"unheard-of": 1}}),
    ("notes", {"notes": {"workspace.unheard-of": 1}}),
    ("tags", {"tags": ("x",), "metadata": {"tags": "of another kind"}}),
    ("workspace", {"workspace": Workspace()}),
    ("workspace", {"workspace": Workspace(template="a//b")}),
    ("workspace", {"workspace": Workspace(path=".")}),
    ("workspace", {"workspace": Workspace(path="p", isolation="per_test")}),
    ("workspace", {"workspace": Workspace(hooks=Hooks(before_all=Hook()))}),
    ("workspace", {"workspace": Workspace(repositories=(Repository(path="../x", source="u"),))}),
    ("input[1]", {"input": (Message(role="user", content="x"), Message(role="developer", content="y"))}),
    ("input[0]", {"input": (Message(role="user", content="x", parts=("x",)),)}),
    ("input", {"input": ()}),
    ("input", {"input": (Message(role="user", content=" "),)}),
    ("input", {"input": (Message(role="assistant", content="x", tool_calls=(ToolCall(name=""),)),)}),
]  # fmt: skip
FATAL: list[tuple[str, dict[str, Any]]] = [
    ("id", {"id": " "}),
    ("id", {"id": "${{ WHO }}", "variables": ("WHO",)}),
    ("variables", {"input": (Message(role="user", content="What is ${{ WHO }}?"),)}),
    ("variables", {"metadata": {"a": ["${{WHO}}"]}}),
    ("metadata", {"metadata": DEEP}),
]


@pytest.mark.parametrize(("place", "fields"), [*LOSABLE, *FATAL])
def test_what_it_cannot_say_is_an_error_that_names_case_and_feature(place: str, fields: Any) -> None:
    case = make(**fields)
    made = written([make(id="first"), case, make(id="last")])
    assert made.fields == [(case.id, place)]
    (told,) = made.told
    assert (told.level, told.code) == ("error", "unsayable")
    assert told.message.startswith(f"Case {case.id!r}: the format agentv cannot express `{place}`: ")
    assert told.message.endswith(".")
    assert [one.id for one in made.cases] == ["first", "last"]
    assert made.wrong == []


@pytest.mark.parametrize(("place", "fields"), LOSABLE)
def test_lossy_writes_the_rest_and_keeps_the_field_in_the_metadata(place: str, fields: Any) -> None:
    case = make(**{"expected": "e"} | fields)
    made = written([make(id="first"), case], lossy=True)
    assert [(told.level, told.field) for told in made.told] == [("warning", place)]
    assert made.wrong == []
    read = made.cases[1]
    field = place.partition("[")[0]
    assert as_json(read.metadata["proctor"]) == as_json({field: getattr(case, field)})
    for name in {"expected", "criteria"} - {field}:
        assert getattr(read, name) == getattr(case, name)
    if field != "assertions":
        digests = [list(map(assertion_digest, one.assertions)) for one in (read, case)]
        assert digests[0] == digests[1]


@pytest.mark.parametrize(("place", "fields"), FATAL)
def test_what_nothing_can_stand_for_is_an_error_when_losses_are_allowed_too(place: str, fields: Any) -> None:
    made = written([make(id="first"), make(**fields)], lossy=True)
    assert [(told.level, told.field) for told in made.told] == [("error", place)]
    assert [one.id for one in made.cases] == ["first"]


def test_a_case_that_loses_every_check_is_passed_by_nothing() -> None:
    made = written([make(assertions=(Assertion(grader="refusal"),))], lossy=True)
    (check,) = made.cases[0].assertions
    assert (check.grader, check.params) == ("regex", {"pattern": "(?!)"})


def test_several_losses_of_a_case_are_all_told() -> None:
    made = written(
        [make(expected=1, form=ResponseFormat(json=True), assertions=(Assertion(grader="refusal"),))]
    )
    assert {place for _, place in made.fields} == {"expected", "form", "assertions[0]"}


@pytest.mark.parametrize(
    ("place", "fields", "kept"),
    [
        ("pass_rule", {"pass_rule": PassRule()}, {}),
        ("pass_rule", {"pass_rule": PassRule(threshold=1.5)}, {"threshold": 1.5}),
        ("repeats_rule", {"repeats_rule": "mean"}, "mean"),
        ("split_rule", {"split_rule": SplitRule(ratio=0.5)}, {"ratio": 0.5}),
        ("defaults", {"defaults": SuiteDefaults(concurrency=51)}, {"concurrency": 51}),
        ("notes", {"notes": {"unheard-of": 1}}, {"unheard-of": 1}),
        ("name", {"name": " s "}, " s "),
        ("name", {"name": " "}, " "),
    ],
)
def test_what_it_cannot_say_of_a_suite_is_named_and_kept_by_the_first_case(
    place: str, fields: Any, kept: Any
) -> None:
    suite = replace(SUITE, **fields)
    made = written([make()], suite)
    assert [(told.level, told.case, told.field) for told in made.told] == [("error", None, place)]
    if kept is not None:
        made = written([make(), make(id="b")], suite, lossy=True)
        assert [(told.level, told.field) for told in made.told] == [("warning", place)]
        assert made.wrong == []
        assert [as_json(case.metadata) for case in made.cases] == [{"proctor": {"suite": {place: kept}}}, {}]


def test_a_suite_of_which_every_assertion_must_pass_becomes_no_milder_by_a_loss() -> None:
    made = written([make()], replace(SUITE, pass_rule=PassRule()), lossy=True)
    assert made.suite.pass_rule == PassRule(threshold=1.0)


def test_how_often_cases_are_asked_is_said_for_all_alike() -> None:
    suite = replace(SUITE, repeats_rule="any")
    made = written([make(repeats=3), make(id="b", repeats=2), make(id="c", repeats=3)], suite)
    assert made.fields == [("b", "repeats")]
    assert made.suite.repeats_rule == "any"
    assert [case.repeats for case in made.cases] == [3, 3]
