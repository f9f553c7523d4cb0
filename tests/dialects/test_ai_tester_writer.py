"""Suites written as folders of Markdown tests: what they say is read as it was, and the rest is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import assertion_digest, decode, encode, judged_digest, sent_digest
from proctor.dialects.ai_tester.dialect import DIALECT
from proctor.dialects.ai_tester.writer import LOST_INSTRUCTIONS, render
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Message,
    PassRule,
    Problem,
    ResponseFormat,
    SplitRule,
    Suite,
    SuiteDefaults,
    Tool,
    ToolCall,
    Workspace,
)
from proctor.prompts.fill import fill_first_prompt
from proctor.protocols import CaseAtLine, RenderedFile
from proctor.services.suites.file_source import source_from_path

HERE = Path(__file__).parent / "ai_tester"
SUITE = Suite(name="s", dialect="ai_tester", defaults=SuiteDefaults(reuse=True))
CHECK = Assertion(grader="instructions", params={"rule": "mean"})
JUDGE = {"id": "strict", "system": "Judge by {{ instructions }}.", "user": "They said: {{ answer }}"}


@dataclass
class Written:
    """What was rendered, and what it is read as from a disk."""

    files: dict[str, bytes] = field(default_factory=dict)
    told: list[Problem] = field(default_factory=list)
    suite: Suite = SUITE
    cases: dict[str, Case] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple[str | None, str | None]]:
        return [(problem.case, problem.field) for problem in self.told]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder below one with prompts, schemas and tools that are none of the suite's."""
    above = tmp_path_factory.mktemp("above")
    (above / ".git").mkdir()
    for name in ("prompts", "schemas", "tools"):
        (above / name).mkdir()
    (above / "prompts" / "other.md").write_text(
        "---\nid: other\ntags: [_evaluator]\n---\n{{instructions}}\n# 👤\n{{answer}}\n", encoding="utf-8"
    )
    (above / "tools" / "broken.yaml").write_text("[", encoding="utf-8")
    return above


COUNT = iter(range(10**9))


def written(home: Path, cases: Iterable[Case], suite: Suite = SUITE, *, lossy: bool = False) -> Written:
    made = Written()
    for item in render(suite, cases, lossy=lossy):
        if isinstance(item, Problem):
            made.told.append(item)
        else:
            made.files[item.path] = made.files.get(item.path, b"") + item.data
    folder = home / f"suite-{next(COUNT)}"
    for path, data in made.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for read in DIALECT.read(source_from_path(folder)):
        if isinstance(read, Suite):
            made.suite = read
        elif isinstance(read, CaseAtLine):
            made.cases[read.case.id] = read.case
        elif read.level == "error":
            made.wrong.append(str(read))
    return made


def make(text: str = "Which month has 28 days?", **fields: Any) -> Case:
    given: dict[str, Any] = {"id": "month", "input": (Message(role="user", content=text),)}
    return Case(**given | {"criteria": "Every month has.", "assertions": (CHECK,)} | fields)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def assert_same(home: Path, cases: Iterable[Case]) -> Written:
    """The cases are written without a word and read as they were."""
    every = {case.id: case for case in cases}
    made = written(home, every.values())
    assert [problem.message for problem in made.told] == []
    assert made.wrong == []
    assert made.cases.keys() == every.keys()
    for name, case in every.items():
        read = made.cases[name]
        assert sent_digest(read) == sent_digest(case)
        assert judged_digest(read) == judged_digest(case)
        assert read.tags == case.tags
        assert as_json({**read.metadata, **case.metadata}) == as_json(read.metadata)
    return made


# --- what was read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crlf.md", "library/tests"])
def test_what_was_read_is_said_again_each_version_in_a_file_of_its_own(home: Path, name: str) -> None:
    items = list(DIALECT.read(source_from_path(HERE / name)))
    (suite,) = [item for item in items if isinstance(item, Suite)]
    cases = {item.case.id: item.case for item in items if isinstance(item, CaseAtLine)}
    # Written one by one, each case has the first of its prompts in its input.
    cases = {
        name: replace(fill_first_prompt(case, suite.defaults.prompts), prompts=None)
        for name, case in cases.items()
    }
    suite = replace(suite, defaults=replace(suite.defaults, prompts=()))
    made = written(home, cases.values(), suite)
    assert cases
    assert made.wrong == []
    assert {problem.level for problem in made.told} <= {"warning"}
    assert {problem.field for problem in made.told} <= {"metadata.prompt", "metadata.replacements"}
    assert made.cases.keys() == cases.keys()
    for case_id, case in cases.items():
        read = made.cases[case_id]
        assert (sent_digest(read), judged_digest(read)) == (sent_digest(case), judged_digest(case))
        assert (read.tags, read.metadata["file"]) == (case.tags, f"{case_id}.md")
    for rule in ("pass_rule", "repeats_rule", "defaults"):
        assert getattr(made.suite, rule) == getattr(suite, rule)


# --- what can be said ---------------------------------------------------------------------------------------

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="{}👤🤖")
BARE = st.text(LETTERS, min_size=1, max_size=15).map(str.strip).filter(bool)
LINES = st.sampled_from(
    ["---", "a # 👤 b", "`x`", "<!-- note -->", "{single}", "- - -", "\r\n", "\ufeff", "x"]
)
TEXTS = st.lists(BARE | LINES, min_size=1, max_size=3).map("\n".join).map(str.strip).filter(bool)
NAMES = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=6)
INSTRUCTIONS = TEXTS.filter(lambda text: "---" not in text.split("\n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | BARE,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(BARE, inner, max_size=2),
    max_leaves=4,
)
FILES = st.builds(
    Attachment, kind=st.just("file"), path=NAMES.map(lambda name: f"files/{name}.txt"), text=st.text(LETTERS)
)
IMAGES = st.builds(
    Attachment,
    kind=st.just("image"),
    path=NAMES.map(lambda name: f"{name}.png"),
    media_type=st.just("image/png"),
    data=st.binary(max_size=9),
)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Message, ...]:
    """A conversation that begins and ends with the user."""
    made = [Message(role="system", content=draw(TEXTS))] if draw(st.booleans()) else []
    for number in range(2 * draw(st.integers(0, 2)) + 1):
        role = "assistant" if number % 2 else "user"
        parts: list[str | Attachment] = []
        if role == "user" and draw(st.booleans()):
            parts = [draw(TEXTS)] if draw(st.booleans()) else []
            parts += draw(st.lists(FILES | IMAGES, min_size=1, max_size=2))
            parts += [draw(TEXTS)] if draw(st.booleans()) else []
        content = "\n\n".join(part for part in parts if isinstance(part, str)) if parts else draw(TEXTS)
        made.append(Message(role=role, content=content, parts=tuple(parts)))
    return tuple(made)


TOOLS = st.lists(
    st.builds(
        Tool, name=BARE, description=BARE | st.just(""), parameters=st.just({"type": "object"}) | st.just({})
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda tool: tool.name,
).map(tuple)
SCHEMAS = st.dictionaries(st.sampled_from(["title", "description"]), BARE)


@st.composite
def formed(draw: st.DrawFn) -> dict[str, Any]:
    """Tags, and the form that they and a schema or tools make."""
    tags = tuple(
        draw(st.lists(NAMES | st.sampled_from(["_json_mode", "_has_tools"]), unique=True, max_size=3))
    )
    special = tuple(sorted(tag for tag in tags if tag.startswith("_")))
    schema = draw(st.none() | SCHEMAS)
    tools = draw(TOOLS) if schema is None and draw(st.booleans()) else ()
    form = ResponseFormat(json="_json_mode" in special, schema=schema, tools=tools, special_tags=special)
    return {"tags": tags, "form": form if special or schema is not None or tools else None}


def without_conflicts(cases: list[Case]) -> bool:
    found: dict[str, Attachment] = {}
    messages = [message for case in cases for message in case.input]
    every = [part for one in messages for part in one.parts if isinstance(part, Attachment)]
    return all(found.setdefault(one.path, one) == one for one in every)


IDS = st.lists(NAMES, min_size=1, max_size=3).map("/".join).filter(lambda name: "readme" not in name)
METADATA = st.fixed_dictionaries(
    {}, optional={"lint": st.just("ignore") | st.lists(NAMES), "proctor": st.dictionaries(BARE, VALUES)}
)


@st.composite
def sayable(draw: st.DrawFn) -> list[Case]:
    ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    return [
        make(
            id=name,
            input=draw(turns()),
            criteria=draw(INSTRUCTIONS),
            metadata=draw(METADATA),
            **draw(formed()),
        )
        for name in ids
    ]


@pytest.mark.slow
@given(cases=sayable().filter(without_conflicts))
def test_everything_that_a_test_can_say_is_said(home: Path, cases: list[Case]) -> None:
    assert_same(home, cases)


EVALUATORS = st.lists(
    st.builds(
        lambda name, system, user: {
            "id": " ".join(name.split()),
            "system": f"{system}\n\n{{{{ instructions }}}}",
            "user": f"{{{{ answer }}}}\n{user}".strip(),
        },
        BARE.filter(lambda name: " ".join(name.split())),
        TEXTS,
        BARE,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one["id"],
)


@pytest.mark.slow
@given(evaluators=EVALUATORS)
def test_evaluators_are_said_in_their_order(home: Path, evaluators: list[dict[str, str]]) -> None:
    check = Assertion(grader="instructions", params={"evaluators": evaluators, "rule": "mean"})
    made = assert_same(home, [make(assertions=(check,)), make(id="b", assertions=(check,))])
    assert len([path for path in made.files if path.startswith("prompts/")]) == len(evaluators)


@pytest.mark.parametrize(
    "name", ["a", "a.md", "ä b/c", "q[who=Mia,n=2]~kind[tone=dry]", "a=b", "tools/x", "😀"]
)
def test_an_id_is_the_path_of_a_file(home: Path, name: str) -> None:
    assert f"{name}.md" in assert_same(home, [make(id=name)]).files


def test_a_test_is_written_for_people(home: Path) -> None:
    picture = Attachment(kind="image", path="cal.png", media_type="image/png", data=b"\x89")
    first = Message(role="user", content="What is this?", parts=("What is this?", picture))
    case = make(
        input=(
            Message(role="system", content="Be brief."),
            first,
            Message(role="assistant", content="A calendar."),
            Message(role="user", content="Of which year?"),
        ),
        tags=("calendar", "_json_mode"),
        form=ResponseFormat(json=True, tools=(Tool(name="look up"),), special_tags=("_json_mode",)),
        assertions=(Assertion(grader="instructions", params={"evaluators": [JUDGE], "rule": "mean"}),),
    )
    made = assert_same(home, [case])
    (tool,) = [path for path in made.files if path.startswith("tool-definitions/look-up-")]
    name = Path(tool).stem
    assert made.files == {
        "month.md": (
            "---\ntags:\n  - calendar\n  - _json_mode\navailableTools:\n"
            f"  - {name}\n---\n\n"
            "Be brief.\n\n# 👤\n\nWhat is this?\n\n`{{_file:cal.png}}`\n\n# 🤖\n\nA calendar.\n\n"
            "# 👤\n\nOf which year?\n\n---\n\nEvery month has.\n"
        ).replace("  - _json_mode", '  - "_json_mode"').encode(),
        "cal.png": b"\x89",
        tool: f"id: {name}\nname: look up\n".encode(),
        "prompts/strict.md": (
            b'---\nid: strict\ntags:\n  - "_evaluator"\n---\n\nJudge by {{ instructions }}.\n\n'
            + "# 👤\n\nThey said: {{ answer }}\n".encode()
        ),
    }  # fmt: skip


def test_schemas_tools_and_files_of_several_tests_are_written_once() -> None:
    form = ResponseFormat(schema={"type": "object"})
    file = Attachment(kind="file", path="a.txt", text="x")
    message = Message(role="user", content="", parts=(file,))
    cases = [make(id=name, form=form, input=(message,)) for name in "abc"]
    items = list(render(SUITE, cases, lossy=False))
    paths = [item.path for item in items if isinstance(item, RenderedFile)]
    assert len(paths) == len(set(paths)) == 6


def test_without_evaluators_those_of_a_folder_above_are_kept_away(home: Path) -> None:
    made = assert_same(home, [make()])
    assert set(made.files) == {"month.md", "prompts/README.md"}


# --- what cannot be said ------------------------------------------------------------------------------------


def said(*pairs: tuple[str, str], **fields: Any) -> dict[str, Any]:
    return {"input": tuple([Message(role=role, content=text, **fields) for role, text in pairs])}


def attaching(path: str, text: str | None = "x", **fields: Any) -> dict[str, Any]:
    part = Attachment(**{"kind": "file", "path": path, "text": text} | fields)
    return {"input": (Message(role="user", content="See.", parts=("See.", part)),)}


LOSABLE: list[tuple[str, dict[str, Any]]] = [
    ("input", {"input": ()}),
    *(
        ("input", said(("user", text)))
        for text in (
            *(" x", "x\n", "", "\xa0", "a\n# 👤 b", "# 🤖", "{{name}}", "`{{ a b }}`", "{{_file:x.txt}}"),
            "Where is ${{ WHO }}?",
        )
    ),
    ("input", said(("system", "a"))),
    ("input", said(("system", "{{x}}"), ("user", "b"))),
    ("input", said(("assistant", "a"), ("user", "b"))),
    ("input", said(("user", "a"), ("user", "b"))),
    ("input", said(("user", "a"), ("assistant", "b"))),
    ("input", said(("user", "a"), ("system", "b"), ("user", "c"))),
    ("input", said(("tool", "a"))),
    ("input", said(("user", "a"), name="ada")),
    ("input", said(("user", "a"), tool_calls=(ToolCall(name="t"),))),
    ("input", said(("user", "a"), parts=("a",))),
    *(
        ("input", attaching(path))
        for path in (
            *(
                "../a.txt",
                "/a.txt",
                "a.xyz",
                "a",
                "a\\b.txt",
                "a}.txt",
                "a.txt ",
                "month.md",
                "month.md/a.txt",
            ),
            *("prompts/a.txt", "tools/a.txt", "structured-schemas/a.json"),
        )
    ),
    ("input", attaching("x.md", "# 👤\nx\n---\ny\n")),
    ("input", attaching("a.txt", None, media_type="application/octet-stream", data=b"\xff")),
    ("input", attaching("a.txt", media_type="text/csv")),
    ("criteria", {"criteria": None}),
    *(("criteria", {"criteria": text}) for text in ("", " x", "a\n---\nb", "{{name}}", "{{_file:a.txt}}")),
    ("assertions", {"assertions": ()}),
    ("assertions[0]", {"assertions": (Assertion(grader="exact", params={"value": "x"}),)}),
    ("assertions[0]", {"assertions": (replace(CHECK, weight=2.0),)}),
    ("assertions[0]", {"assertions": (replace(CHECK, required=0.5),)}),
    ("assertions[0]", {"assertions": (replace(CHECK, negated=True),)}),
    ("assertions[0]", {"assertions": (replace(CHECK, params={"temperature": 0.5}),)}),
    ("assertions[0]", {"assertions": (replace(CHECK, params={"evaluators": [JUDGE], "rule": "mean"}),)}),
    ("assertions[1]", {"assertions": (CHECK, CHECK)}),
    ("assertions[1]", {"assertions": (CHECK, Assertion(grader="refusal"))}),
    ("assertions[0].label", {"assertions": (replace(CHECK, label="the months"),)}),
    ("tags", {"tags": ("a", "a")}),
    ("tags", {"tags": ("_evaluator",)}),
    ("form", {"form": ResponseFormat()}),
    ("form", {"form": ResponseFormat(json=True)}),
    ("form", {"tags": ("_json_mode",)}),
    ("form", {"form": ResponseFormat(schema={"id": "x"})}),
    ("form", {"form": ResponseFormat(schema={"type": "no type"})}),
    ("form", {"form": ResponseFormat(schema={}, tools=(Tool(name="t"),))}),
    ("form", {"form": ResponseFormat(tools=(Tool(name="t"), Tool(name="t", description="d")))}),
    ("form", {"form": ResponseFormat(tools=(Tool(name=" "),))}),
    ("metadata.lint", {"metadata": {"lint": 3}}),
    ("metadata.author", {"metadata": {"author": "Ida"}}),
    ("expected", {"expected": "x"}),
    ("category", {"category": "x"}),
    ("repeats", {"repeats": 2}),
    ("pass_rule", {"pass_rule": PassRule(threshold=0.5)}),
    ("target", {"target": "t"}),
    ("only_targets", {"only_targets": ("t",)}),
    ("workspace", {"workspace": Workspace(template="t")}),
    ("notes", {"notes": {"a": 1}}),
    ("variables", {"variables": ("WHO",)}),
]
FATAL = [
    *("", "a/", "/a", "a//b", "./a", "../a", "a/../b", ".hidden", "a/.b", "a\\b", "a\0", "a\nb", "x" * 253),
    *("prompts/a", "a/prompts/b", "README", "a/ReadMe", "first"),
]


@pytest.mark.parametrize(("place", "fields"), LOSABLE)
def test_what_it_cannot_say_is_an_error_that_names_case_and_feature(
    home: Path, place: str, fields: Any
) -> None:
    made = written(home, [make(id="first"), make(**fields), make(id="last")])
    assert made.fields == [("month", place)]
    (told,) = made.told
    assert (told.level, told.code) == ("error", "unsayable")
    assert told.message.startswith(f"Case 'month': the format ai_tester cannot express `{place}`: ")
    assert told.message.endswith(".")
    assert set(made.cases) == {"first", "last"}
    assert made.wrong == []


@pytest.mark.parametrize(("place", "fields"), LOSABLE)
def test_lossy_writes_the_rest_and_keeps_the_field(home: Path, place: str, fields: Any) -> None:
    case = make(**fields)
    made = written(home, [make(id="first"), case], lossy=True)
    assert [(told.level, told.field) for told in made.told] == [("warning", place)]
    assert made.wrong == []
    read = made.cases["month"]
    lost = place.partition("[")[0].partition(".")[0]
    assert as_json(read.metadata["proctor"]) == as_json({lost: getattr(case, lost)})
    for name in {"input", "criteria", "tags"} - {lost}:
        assert as_json(getattr(read, name)) == as_json(getattr(case, name))
    if lost != "form" and not (lost == "tags" and case.form is None):
        assert as_json(read.form) == as_json(case.form)


@pytest.mark.parametrize("name", FATAL)
@pytest.mark.parametrize("lossy", [False, True])
def test_an_id_that_no_file_can_have_is_an_error_also_when_losses_are_allowed(
    home: Path, name: str, lossy: bool
) -> None:
    made = written(home, [make(id="first"), make(id=name), make(id="last")], lossy=lossy)
    assert [(told.level, told.case, told.field) for told in made.told] == [("error", name, "id")]
    assert set(made.cases) == {"first", "last"}
    assert made.wrong == []


def test_what_is_lost_is_passed_by_nothing(home: Path) -> None:
    case = make(criteria=None, assertions=(Assertion(grader="exact", params={"value": "x"}),))
    made = written(home, [case], lossy=True)
    assert made.cases["month"].criteria == LOST_INSTRUCTIONS
    assert made.cases["month"].metadata["proctor"].keys() == {"criteria", "assertions"}


def test_a_text_that_is_lost_stands_in_one_turn_without_a_meaning_of_its_own(home: Path) -> None:
    case = make(**said(("system", "Be {{kind}}."), ("user", "a\n# 👤 b\n---\nc"), ("assistant", "d")))
    made = written(home, [case], lossy=True)
    assert [message.content for message in made.cases["month"].input] == [
        "Be { {kind}}.\n\na\n> # 👤 b\n---\nc\n\nd"
    ]


def test_all_tests_have_the_evaluators_of_the_first(home: Path) -> None:
    check = Assertion(grader="instructions", params={"evaluators": [JUDGE], "rule": "mean"})
    made = written(home, [make(assertions=(check,)), make(id="b")])
    assert made.fields == [("b", "assertions[0]")]
    assert assertion_digest(made.cases["month"].assertions[0]) == assertion_digest(check)


@pytest.mark.parametrize(
    "judge",
    [
        {**JUDGE, "id": ""},
        {**JUDGE, "id": "a\nb"},
        {**JUDGE, "user": "nothing to see"},
        {**JUDGE, "system": "{{ instructions }} {{ other }}"},
        {**JUDGE, "system": "{{instructions}}"},
        {**JUDGE, "system": " x {{ instructions }}"},
        {**JUDGE, "user": "{{ answer }}\n# 👤"},
        {"id": "x"},
        "x",
        {**JUDGE, "more": 1},
    ],
)
def test_an_evaluator_that_cannot_be_said_is_named_with_each_case(home: Path, judge: Any) -> None:
    check = Assertion(grader="instructions", params={"evaluators": [judge], "rule": "mean"})
    made = written(home, [make(assertions=(check,)), make(id="b", assertions=(check,))])
    assert made.fields == [("month", "assertions[0]"), ("b", "assertions[0]")]


@pytest.mark.parametrize(
    ("place", "fields", "level"),
    [
        ("pass_rule", {"pass_rule": PassRule(threshold=0.8)}, "error"),
        ("repeats_rule", {"repeats_rule": "mean"}, "error"),
        ("description", {"description": "d"}, "error"),
        ("declared_version", {"declared_version": "1"}, "error"),
        ("notes", {"notes": {"a": 1}}, "error"),
        ("defaults", {"defaults": SuiteDefaults(concurrency=2)}, "error"),
        ("split_rule", {"split_rule": SplitRule()}, "warning"),
    ],
)
def test_what_it_cannot_say_of_a_suite_is_named_and_kept_by_the_first_case(
    home: Path, place: str, fields: Any, level: str
) -> None:
    suite = replace(SUITE, **fields)
    made = written(home, [make()], suite)
    assert [(told.level, told.case, told.field) for told in made.told] == [(level, None, place)]
    made = written(home, [make(), make(id="b")], suite, lossy=True)
    assert [(told.level, told.field) for told in made.told] == [("warning", place)]
    kept = {"suite": {place: as_json(getattr(suite, place))}} if level == "error" else None
    assert [case.metadata.get("proctor") for case in made.cases.values()] in ([None, kept], [kept, None])


def test_a_suite_without_cases_is_a_folder_without_tests(home: Path) -> None:
    assert set(written(home, []).files) == {"prompts/README.md"}
