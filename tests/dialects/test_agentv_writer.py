"""Suites written in the dialect agentv are read unchanged, and what it cannot express is reported."""

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
class WrittenSuite:
    """The files of a suite, and the suite that is read from them."""

    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    suite: Suite = SUITE
    cases: list[Case] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple[str | None, str | None]]:
        return [(problem.case, problem.field) for problem in self.problems]

    @property
    def tests(self) -> Any:
        return load(self.files[""].decode())["tests"]


def write(cases: Iterable[Case], suite: Suite = SUITE, *, lossy: bool = False) -> WrittenSuite:
    result = WrittenSuite()
    for item in render(suite, cases, lossy=lossy):
        if isinstance(item, Problem):
            result.problems.append(item)
        else:
            result.files[item.path] = result.files.get(item.path, b"") + item.data

    find = find_in(result.files)
    source = make_source(
        result.files[""], "s.yaml", find_file=lambda path: find(normpath(path)), environ={"WHO": "you"}
    )
    result.suite, result.cases, problems = split_items(DIALECT.read(source))
    result.errors = [str(problem) for problem in problems if problem.level == "error"]
    return result


def make_case(text: str = "Which day is it?", **fields: Any) -> Case:
    defaults: dict[str, Any] = {"id": "a", "input": (Message(role="user", content=text),), "criteria": "c"}
    return Case(**defaults | {"assertions": (DEFAULT_ASSERTION,)} | fields)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def check_unchanged(case: Case, suite: Suite = SUITE) -> WrittenSuite:
    """Checks that a case is written without a problem and read unchanged."""
    result = write([case], suite)
    assert [problem.message for problem in result.problems] == []
    assert result.errors == []
    (read_case,) = result.cases
    assert sent_digest(read_case) == sent_digest(case)
    assert judged_digest(read_case) == judged_digest(case)
    for name in ("id", "tags", "category", "target", "only_targets", "repeats", "notes", "variables"):
        assert getattr(read_case, name) == getattr(case, name)
    assert encode({**read_case.metadata, **case.metadata}) == encode(read_case.metadata)
    return result


# --- what can be written ------------------------------------------------------------------------------------

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


def optional_fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
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
).filter(lambda image: image.media_type.startswith("image/"))
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
def messages_with_files(draw: st.DrawFn) -> Message:
    parts = [*draw(st.lists(TEXTS | FILES | BLOBS, max_size=3)), draw(FILES | BLOBS)]
    content = "\n\n".join(part for part in parts if isinstance(part, str))
    return Message(role="user", content=content, parts=tuple(parts))


def has_no_conflicts(messages: list[Message]) -> bool:
    attachments: dict[str, Attachment] = {}
    parts = [part for message in messages for part in message.parts if isinstance(part, Attachment)]
    return all(attachments.setdefault(part.path, part) == part for part in parts)


@pytest.mark.slow
@given(
    messages=st.lists(PLAIN | messages_with_files(), min_size=1, max_size=3).filter(has_no_conflicts),
    expected=TEXTS | OBJECTS | st.lists(VALUES, min_size=1, max_size=2),
)
def test_messages_files_and_expected_values_are_written(messages: list[Message], expected: Any) -> None:
    result = check_unchanged(make_case(input=tuple(messages), expected=expected))
    paths = [part.path for message in messages for part in message.parts if isinstance(part, Attachment)]
    assert set(result.files) == {"", *paths}


PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HOOKS = st.builds(
    Hook,
    command=st.lists(TEXTS, max_size=3).map(lambda words: ("tool", *words)),
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
    repositories=st.lists(REPOSITORIES, max_size=2, unique_by=lambda repository: repository.path).map(tuple),
    hooks=st.builds(Hooks, before_all=HOOKS, after_each=st.none() | HOOKS),
) | st.builds(Workspace, path=PATHS)


@pytest.mark.slow
@given(
    fields=optional_fields(
        workspace=WORKSPACES,
        metadata=OBJECTS.filter(lambda metadata: "tags" not in metadata),
        category=TEXTS.filter(bool),
        target=WORDS,
        only_targets=st.lists(TEXTS, min_size=1, max_size=2).map(tuple),
        pass_rule=SHARES.map(lambda share: PassRule(threshold=share)),
        criteria=WORDS,
        tags=st.lists(TEXTS, unique=True, max_size=3).map(tuple),
        notes=optional_fields(window_size=st.integers(1, 3), note=TEXTS, description=TEXTS),
    )
)
def test_other_fields_of_a_case_are_written(fields: dict[str, Any]) -> None:
    check_unchanged(make_case(**fields))


@pytest.mark.slow
@given(
    fields=optional_fields(
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
        notes=optional_fields(
            author=TEXTS,
            **{"execution.cache_path": TEXTS, "workspace.docker": st.just({"image": "x"})},
        ),
    ),
    repeats=st.integers(1, 9),
)
def test_the_header_of_a_suite_is_written(fields: dict[str, Any], repeats: int) -> None:
    suite = replace(SUITE, **fields)
    result = write([make_case(repeats=repeats if "repeats_rule" in fields else None)], suite)
    assert (result.problems, result.errors) == ([], [])
    for name in ("name", "description", "declared_version", "pass_rule", "repeats_rule", "defaults", "notes"):
        assert getattr(result.suite, name) == getattr(suite, name)


# --- how it is written -------------------------------------------------------------------------------------


def test_the_yaml_of_a_suite_is_readable() -> None:
    case = make_case(
        expected="Monday\nor Tuesday",
        assertions=(Assertion(grader="contains", params={"value": "day"}, required=0.8),),
        tags=("calendar",),
        metadata={"since": "2024-01-01"},
    )
    assert write([case, make_case(id="b")]).files[""].decode() == (
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
def test_a_pattern_is_written_in_the_syntax_of_javascript(pattern: Any, written_as: Any) -> None:
    result = check_unchanged(make_case(assertions=(Assertion(grader="regex", params=pattern),)))
    (row,) = result.tests[0]["assertions"]
    assert {name: row[name] for name in row if name != "type"} == written_as


def test_a_suite_without_cases_has_an_empty_list() -> None:
    assert write([]).files[""] == b"name: s\ntests: []\n"
    assert write([make_case("")]).files[""] == b"name: s\ntests: []\n"


def test_tags_that_a_suite_gives_its_tests_are_not_put_into_metadata_that_hooks_see() -> None:
    workspace = Workspace(template="t")
    own = make_case(id="b", workspace=workspace, tags=("all", "own"), metadata={"tags": ["own"]})
    result = write(
        [make_case(workspace=workspace, tags=("all",)), own, make_case(id="c", tags=("all", "more"))]
    )
    assert result.problems == []
    assert [(case.tags, case.metadata) for case in result.cases] == [
        (("all",), {}),
        (("all", "own"), {"tags": ["own"]}),
        (("all", "more"), {"tags": ["more"]}),
    ]


# --- files --------------------------------------------------------------------------------------------------


def make_message_with_file(path: str, text: str | None = "x", **fields: Any) -> Message:
    part = Attachment(**{"kind": "file", "path": path, "text": text} | fields)
    return Message(role="user", content="See.", parts=(part, "See."))


def test_a_file_of_several_cases_is_written_once() -> None:
    items = list(
        render(
            SUITE,
            [make_case(id=str(n), input=(make_message_with_file("a/b.md"),)) for n in range(3)],
            lossy=False,
        )
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
def test_audio_and_videos_are_read_unchanged(kind: Any, path: str, data: bytes) -> None:
    part = build_attachment(kind, path, data)
    check_unchanged(make_case(input=(Message(role="user", content="See.", parts=(part, "See.")),)))


@pytest.mark.parametrize("text", ["\ufeffmark", "a\r\nb", "a\r\r\nb\r", "", "é\x85\u2028"])
def test_the_text_of_a_file_is_read_unchanged(text: str) -> None:
    check_unchanged(make_case(input=(make_message_with_file("./a.md", text),)))


@pytest.mark.parametrize(
    "message",
    [
        *(
            make_message_with_file(path)
            for path in ("../a.md", "/a.md", "a/../../b", "C:/a", "a\\b", "", "a/", ".", "a\0")
        ),
        make_message_with_file("a.md", "${{ WHO }}", media_type="text/markdown"),
        make_message_with_file("a.bin", None, data=b"text", media_type="application/octet-stream"),
        make_message_with_file("a.png", None, kind="image", data=b"\xff\xd8\xff", media_type="image/png"),
        make_message_with_file("a.tiff", None, kind="image", data=b"\xff", media_type="image/tiff"),
    ],
)
def test_a_file_that_cannot_be_written_beside_the_suite_is_an_error(message: Message) -> None:
    result = write([make_case(input=(message,))])
    assert result.fields == [("a", "input[0]")]
    assert "a" not in {case.id for case in result.cases}
    assert set(result.files) == {""}


@pytest.mark.parametrize(
    "second",
    [
        make_message_with_file("a/b.md", "other"),
        make_message_with_file("a/b.md/c.md"),
        make_message_with_file("a"),
    ],
    ids=repr,
)
def test_two_files_with_conflicting_paths_are_an_error(second: Message) -> None:
    result = write([make_case(input=(make_message_with_file("a/b.md"),)), make_case(id="b", input=(second,))])
    assert [case for case, _ in result.fields] == ["b"]
    assert [case.id for case in result.cases] == ["a"]


# --- what cannot be written ---------------------------------------------------------------------------------

CONTAINS_X = Assertion(grader="contains", params={"value": "x"})
DEEP_VALUE: dict[str, Any] = {}
for _ in range(70):
    DEEP_VALUE = {"a": DEEP_VALUE}


def make_assertions(**fields: Any) -> tuple[Assertion, ...]:
    return (replace(CONTAINS_X, **fields),)


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
LOSSY_FIELDS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("assertions[0]", {"assertions": (Assertion(grader=grader, params=params),)})
        for grader, params in CHECKS
    ),
    ("assertions", {"assertions": ()}),
    ("assertions[0]", {"assertions": make_assertions(pass_at=0.0)}),
    ("assertions[0]", {"assertions": make_assertions(required=0.5, pass_at=0.8)}),
    ("assertions[0]", {"assertions": make_assertions(required=0.0)}),
    ("assertions[0].label", {"assertions": make_assertions(label=" ")}),
    ("assertions[0]", {"assertions": make_assertions(weight=-1.0)}),
    ("assertions[1]", {"assertions": (CONTAINS_X, Assertion(grader="number", params={"value": 4.0}))}),
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
FATAL_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("id", {"id": " "}),
    ("id", {"id": "${{ WHO }}", "variables": ("WHO",)}),
    ("variables", {"input": (Message(role="user", content="What is ${{ WHO }}?"),)}),
    ("variables", {"metadata": {"a": ["${{WHO}}"]}}),
    ("metadata", {"metadata": DEEP_VALUE}),
]


@pytest.mark.parametrize(("place", "fields"), [*LOSSY_FIELDS, *FATAL_FIELDS])
def test_a_field_that_cannot_be_expressed_is_an_error_that_names_case_and_field(
    place: str, fields: Any
) -> None:
    case = make_case(**fields)
    result = write([make_case(id="first"), case, make_case(id="last")])
    assert result.fields == [(case.id, place)]
    (problem,) = result.problems
    assert (problem.level, problem.code) == ("error", "unsayable")
    assert problem.message.startswith(f"Case {case.id!r}: the format agentv cannot express `{place}`: ")
    assert problem.message.endswith(".")
    assert [written_case.id for written_case in result.cases] == ["first", "last"]
    assert result.errors == []


@pytest.mark.parametrize(("place", "fields"), LOSSY_FIELDS)
def test_lossy_writes_all_other_fields_and_keeps_this_one_in_the_metadata(place: str, fields: Any) -> None:
    case = make_case(**{"expected": "e"} | fields)
    result = write([make_case(id="first"), case], lossy=True)
    assert [(problem.level, problem.field) for problem in result.problems] == [("warning", place)]
    assert result.errors == []
    read_case = result.cases[1]
    field = place.partition("[")[0]
    assert as_json(read_case.metadata["proctor"]) == as_json({field: getattr(case, field)})
    for name in {"expected", "criteria"} - {field}:
        assert getattr(read_case, name) == getattr(case, name)
    if field != "assertions":
        digests = [list(map(assertion_digest, item.assertions)) for item in (read_case, case)]
        assert digests[0] == digests[1]


@pytest.mark.parametrize(("place", "fields"), FATAL_FIELDS)
def test_some_fields_cannot_be_lost_even_if_losses_are_allowed(place: str, fields: Any) -> None:
    result = write([make_case(id="first"), make_case(**fields)], lossy=True)
    assert [(problem.level, problem.field) for problem in result.problems] == [("error", place)]
    assert [written_case.id for written_case in result.cases] == ["first"]


def test_a_case_that_loses_every_check_can_never_pass() -> None:
    result = write([make_case(assertions=(Assertion(grader="refusal"),))], lossy=True)
    (check,) = result.cases[0].assertions
    assert (check.grader, check.params) == ("regex", {"pattern": "(?!)"})


def test_all_losses_of_a_case_are_reported() -> None:
    result = write(
        [make_case(expected=1, form=ResponseFormat(json=True), assertions=(Assertion(grader="refusal"),))]
    )
    assert {place for _, place in result.fields} == {"expected", "form", "assertions[0]"}


@pytest.mark.parametrize(
    ("place", "fields", "metadata"),
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
def test_a_suite_field_that_cannot_be_expressed_is_reported_and_kept_in_the_first_case(
    place: str, fields: Any, metadata: Any
) -> None:
    suite = replace(SUITE, **fields)
    result = write([make_case()], suite)
    assert [(problem.level, problem.case, problem.field) for problem in result.problems] == [
        ("error", None, place)
    ]
    if metadata is not None:
        result = write([make_case(), make_case(id="b")], suite, lossy=True)
        assert [(problem.level, problem.field) for problem in result.problems] == [("warning", place)]
        assert result.errors == []
        assert [as_json(case.metadata) for case in result.cases] == [
            {"proctor": {"suite": {place: metadata}}},
            {},
        ]


def test_a_suite_in_which_every_assertion_must_pass_stays_strict_after_a_loss() -> None:
    result = write([make_case()], replace(SUITE, pass_rule=PassRule()), lossy=True)
    assert result.suite.pass_rule == PassRule(threshold=1.0)


def test_only_cases_with_the_same_repeats_are_written() -> None:
    suite = replace(SUITE, repeats_rule="any")
    result = write([make_case(repeats=3), make_case(id="b", repeats=2), make_case(id="c", repeats=3)], suite)
    assert result.fields == [("b", "repeats")]
    assert result.suite.repeats_rule == "any"
    assert [case.repeats for case in result.cases] == [3, 3]
