"""Suites written as folders of Markdown tests are read unchanged, and all losses are reported."""

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

FOLDER = Path(__file__).parent / "ai_tester"
SUITE = Suite(name="s", dialect="ai_tester", defaults=SuiteDefaults(reuse=True))
CHECK = Assertion(grader="instructions", params={"rule": "mean"})
JUDGE = {"id": "strict", "system": "Judge by {{ instructions }}.", "user": "They said: {{ answer }}"}


@dataclass
class WrittenSuite:
    """The files of a suite, and the suite that is read from them on a disk."""

    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    suite: Suite = SUITE
    cases: dict[str, Case] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple[str | None, str | None]]:
        return [(problem.case, problem.field) for problem in self.problems]


@pytest.fixture(scope="module")
def parent_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose prompts, schemas and tools do not belong to the suites that are written below it."""
    above = tmp_path_factory.mktemp("above")
    (above / ".git").mkdir()
    for name in ("prompts", "schemas", "tools"):
        (above / name).mkdir()
    (above / "prompts" / "other.md").write_text(
        "---\nid: other\ntags: [_evaluator]\n---\n{{instructions}}\n# 👤\n{{answer}}\n", encoding="utf-8"
    )
    (above / "tools" / "broken.yaml").write_text("[", encoding="utf-8")
    return above


NUMBERS = iter(range(10**9))


def write(
    parent_folder: Path, cases: Iterable[Case], suite: Suite = SUITE, *, lossy: bool = False
) -> WrittenSuite:
    result = WrittenSuite()
    for item in render(suite, cases, lossy=lossy):
        if isinstance(item, Problem):
            result.problems.append(item)
        else:
            result.files[item.path] = result.files.get(item.path, b"") + item.data
    folder = parent_folder / f"suite-{next(NUMBERS)}"
    for path, data in result.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for read_item in DIALECT.read(source_from_path(folder)):
        if isinstance(read_item, Suite):
            result.suite = read_item
        elif isinstance(read_item, CaseAtLine):
            result.cases[read_item.case.id] = read_item.case
        elif read_item.level == "error":
            result.errors.append(str(read_item))
    return result


def make_case(text: str = "Which month has 28 days?", **fields: Any) -> Case:
    defaults: dict[str, Any] = {"id": "month", "input": (Message(role="user", content=text),)}
    return Case(**defaults | {"criteria": "Every month has.", "assertions": (CHECK,)} | fields)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def check_unchanged(parent_folder: Path, cases: Iterable[Case]) -> WrittenSuite:
    """Checks that cases are written without a problem and read unchanged."""
    by_id = {case.id: case for case in cases}
    result = write(parent_folder, by_id.values())
    assert [problem.message for problem in result.problems] == []
    assert result.errors == []
    assert result.cases.keys() == by_id.keys()
    for name, case in by_id.items():
        read_case = result.cases[name]
        assert sent_digest(read_case) == sent_digest(case)
        assert judged_digest(read_case) == judged_digest(case)
        assert read_case.tags == case.tags
        assert as_json({**read_case.metadata, **case.metadata}) == as_json(read_case.metadata)
    return result


# --- suites that were read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crlf.md", "library/tests"])
def test_a_suite_that_was_read_can_be_written_with_each_version_in_its_own_file(
    parent_folder: Path, name: str
) -> None:
    items = list(DIALECT.read(source_from_path(FOLDER / name)))
    (suite,) = [item for item in items if isinstance(item, Suite)]
    cases = {item.case.id: item.case for item in items if isinstance(item, CaseAtLine)}
    # Each case is written with the first of its prompts in its input.
    cases = {
        name: replace(fill_first_prompt(case, suite.defaults.prompts), prompts=None)
        for name, case in cases.items()
    }
    suite = replace(suite, defaults=replace(suite.defaults, prompts=()))
    result = write(parent_folder, cases.values(), suite)
    assert cases
    assert result.errors == []
    assert {problem.level for problem in result.problems} <= {"warning"}
    assert {problem.field for problem in result.problems} <= {"metadata.prompt", "metadata.replacements"}
    assert result.cases.keys() == cases.keys()
    for case_id, case in cases.items():
        read_case = result.cases[case_id]
        assert (sent_digest(read_case), judged_digest(read_case)) == (sent_digest(case), judged_digest(case))
        assert (read_case.tags, read_case.metadata["file"]) == (case.tags, f"{case_id}.md")
    for rule in ("pass_rule", "repeats_rule", "defaults"):
        assert getattr(result.suite, rule) == getattr(suite, rule)


# --- what can be written ------------------------------------------------------------------------------------

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
    messages = [Message(role="system", content=draw(TEXTS))] if draw(st.booleans()) else []
    for number in range(2 * draw(st.integers(0, 2)) + 1):
        role = "assistant" if number % 2 else "user"
        parts: list[str | Attachment] = []
        if role == "user" and draw(st.booleans()):
            parts = [draw(TEXTS)] if draw(st.booleans()) else []
            parts += draw(st.lists(FILES | IMAGES, min_size=1, max_size=2))
            parts += [draw(TEXTS)] if draw(st.booleans()) else []
        content = "\n\n".join(part for part in parts if isinstance(part, str)) if parts else draw(TEXTS)
        messages.append(Message(role=role, content=content, parts=tuple(parts)))
    return tuple(messages)


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
def tags_and_form(draw: st.DrawFn) -> dict[str, Any]:
    """Tags, and the form that they and a schema or tools make."""
    tags = tuple(
        draw(st.lists(NAMES | st.sampled_from(["_json_mode", "_has_tools"]), unique=True, max_size=3))
    )
    special = tuple(sorted(tag for tag in tags if tag.startswith("_")))
    schema = draw(st.none() | SCHEMAS)
    tools = draw(TOOLS) if schema is None and draw(st.booleans()) else ()
    form = ResponseFormat(json="_json_mode" in special, schema=schema, tools=tools, special_tags=special)
    return {"tags": tags, "form": form if special or schema is not None or tools else None}


def has_no_conflicts(cases: list[Case]) -> bool:
    attachments: dict[str, Attachment] = {}
    messages = [message for case in cases for message in case.input]
    parts = [part for message in messages for part in message.parts if isinstance(part, Attachment)]
    return all(attachments.setdefault(part.path, part) == part for part in parts)


IDS = st.lists(NAMES, min_size=1, max_size=3).map("/".join).filter(lambda name: "readme" not in name)
METADATA = st.fixed_dictionaries(
    {}, optional={"lint": st.just("ignore") | st.lists(NAMES), "proctor": st.dictionaries(BARE, VALUES)}
)


@st.composite
def writable_cases(draw: st.DrawFn) -> list[Case]:
    ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    return [
        make_case(
            id=name,
            input=draw(turns()),
            criteria=draw(INSTRUCTIONS),
            metadata=draw(METADATA),
            **draw(tags_and_form()),
        )
        for name in ids
    ]


@pytest.mark.slow
@given(cases=writable_cases().filter(has_no_conflicts))
def test_all_fields_of_a_test_are_written(parent_folder: Path, cases: list[Case]) -> None:
    check_unchanged(parent_folder, cases)


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
    unique_by=lambda evaluator: evaluator["id"],
)


@pytest.mark.slow
@given(evaluators=EVALUATORS)
def test_evaluators_are_written_in_order(parent_folder: Path, evaluators: list[dict[str, str]]) -> None:
    check = Assertion(grader="instructions", params={"evaluators": evaluators, "rule": "mean"})
    result = check_unchanged(
        parent_folder, [make_case(assertions=(check,)), make_case(id="b", assertions=(check,))]
    )
    assert len([path for path in result.files if path.startswith("prompts/")]) == len(evaluators)


@pytest.mark.parametrize(
    "name", ["a", "a.md", "ä b/c", "q[who=Mia,n=2]~kind[tone=dry]", "a=b", "tools/x", "😀"]
)
def test_an_id_is_the_path_of_a_file(parent_folder: Path, name: str) -> None:
    assert f"{name}.md" in check_unchanged(parent_folder, [make_case(id=name)]).files


def test_the_markdown_of_a_test_is_readable(parent_folder: Path) -> None:
    picture = Attachment(kind="image", path="cal.png", media_type="image/png", data=b"\x89")
    first = Message(role="user", content="What is this?", parts=("What is this?", picture))
    case = make_case(
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
    result = check_unchanged(parent_folder, [case])
    (tool,) = [path for path in result.files if path.startswith("tool-definitions/look-up-")]
    name = Path(tool).stem
    assert result.files == {
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
    cases = [make_case(id=name, form=form, input=(message,)) for name in "abc"]
    items = list(render(SUITE, cases, lossy=False))
    paths = [item.path for item in items if isinstance(item, RenderedFile)]
    assert len(paths) == len(set(paths)) == 6


def test_a_suite_without_evaluators_gets_none_from_a_folder_above(parent_folder: Path) -> None:
    result = check_unchanged(parent_folder, [make_case()])
    assert set(result.files) == {"month.md", "prompts/README.md"}


# --- what cannot be written ---------------------------------------------------------------------------------


def make_turns(*pairs: tuple[str, str], **fields: Any) -> dict[str, Any]:
    return {"input": tuple([Message(role=role, content=text, **fields) for role, text in pairs])}


def make_turn_with_file(path: str, text: str | None = "x", **fields: Any) -> dict[str, Any]:
    part = Attachment(**{"kind": "file", "path": path, "text": text} | fields)
    return {"input": (Message(role="user", content="See.", parts=("See.", part)),)}


LOSSY_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("input", {"input": ()}),
    *(
        ("input", make_turns(("user", text)))
        for text in (
            *(" x", "x\n", "", "\xa0", "a\n# 👤 b", "# 🤖", "{{name}}", "`{{ a b }}`", "{{_file:x.txt}}"),
            "Where is ${{ WHO }}?",
        )
    ),
    ("input", make_turns(("system", "a"))),
    ("input", make_turns(("system", "{{x}}"), ("user", "b"))),
    ("input", make_turns(("assistant", "a"), ("user", "b"))),
    ("input", make_turns(("user", "a"), ("user", "b"))),
    ("input", make_turns(("user", "a"), ("assistant", "b"))),
    ("input", make_turns(("user", "a"), ("system", "b"), ("user", "c"))),
    ("input", make_turns(("tool", "a"))),
    ("input", make_turns(("user", "a"), name="ada")),
    ("input", make_turns(("user", "a"), tool_calls=(ToolCall(name="t"),))),
    ("input", make_turns(("user", "a"), parts=("a",))),
    *(
        ("input", make_turn_with_file(path))
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
    ("input", make_turn_with_file("x.md", "# 👤\nx\n---\ny\n")),
    ("input", make_turn_with_file("a.txt", None, media_type="application/octet-stream", data=b"\xff")),
    ("input", make_turn_with_file("a.txt", media_type="text/csv")),
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
INVALID_IDS = [
    *("", "a/", "/a", "a//b", "./a", "../a", "a/../b", ".hidden", "a/.b", "a\\b", "a\0", "a\nb", "x" * 253),
    *("prompts/a", "a/prompts/b", "README", "a/ReadMe", "first"),
]


@pytest.mark.parametrize(("place", "fields"), LOSSY_FIELDS)
def test_a_field_that_cannot_be_expressed_is_an_error_that_names_case_and_field(
    parent_folder: Path, place: str, fields: Any
) -> None:
    result = write(parent_folder, [make_case(id="first"), make_case(**fields), make_case(id="last")])
    assert result.fields == [("month", place)]
    (problem,) = result.problems
    assert (problem.level, problem.code) == ("error", "unsayable")
    assert problem.message.startswith(f"Case 'month': the format ai_tester cannot express `{place}`: ")
    assert problem.message.endswith(".")
    assert set(result.cases) == {"first", "last"}
    assert result.errors == []


@pytest.mark.parametrize(("place", "fields"), LOSSY_FIELDS)
def test_lossy_writes_all_other_fields_and_keeps_this_one(
    parent_folder: Path, place: str, fields: Any
) -> None:
    case = make_case(**fields)
    result = write(parent_folder, [make_case(id="first"), case], lossy=True)
    assert [(problem.level, problem.field) for problem in result.problems] == [("warning", place)]
    assert result.errors == []
    read_case = result.cases["month"]
    field = place.partition("[")[0].partition(".")[0]
    assert as_json(read_case.metadata["proctor"]) == as_json({field: getattr(case, field)})
    for name in {"input", "criteria", "tags"} - {field}:
        assert as_json(getattr(read_case, name)) == as_json(getattr(case, name))
    if field != "form" and not (field == "tags" and case.form is None):
        assert as_json(read_case.form) == as_json(case.form)


@pytest.mark.parametrize("name", INVALID_IDS)
@pytest.mark.parametrize("lossy", [False, True])
def test_an_id_that_cannot_be_a_path_is_an_error_even_if_losses_are_allowed(
    parent_folder: Path, name: str, lossy: bool
) -> None:
    result = write(
        parent_folder, [make_case(id="first"), make_case(id=name), make_case(id="last")], lossy=lossy
    )
    assert [(problem.level, problem.case, problem.field) for problem in result.problems] == [
        ("error", name, "id")
    ]
    assert set(result.cases) == {"first", "last"}
    assert result.errors == []


def test_lost_instructions_can_never_be_passed(parent_folder: Path) -> None:
    case = make_case(criteria=None, assertions=(Assertion(grader="exact", params={"value": "x"}),))
    result = write(parent_folder, [case], lossy=True)
    assert result.cases["month"].criteria == LOST_INSTRUCTIONS
    assert result.cases["month"].metadata["proctor"].keys() == {"criteria", "assertions"}


def test_lost_messages_become_one_turn_without_markup(parent_folder: Path) -> None:
    case = make_case(
        **make_turns(("system", "Be {{kind}}."), ("user", "a\n# 👤 b\n---\nc"), ("assistant", "d"))
    )
    result = write(parent_folder, [case], lossy=True)
    assert [message.content for message in result.cases["month"].input] == [
        "Be { {kind}}.\n\na\n> # 👤 b\n---\nc\n\nd"
    ]


def test_the_evaluators_of_the_first_test_apply_to_all(parent_folder: Path) -> None:
    check = Assertion(grader="instructions", params={"evaluators": [JUDGE], "rule": "mean"})
    result = write(parent_folder, [make_case(assertions=(check,)), make_case(id="b")])
    assert result.fields == [("b", "assertions[0]")]
    assert assertion_digest(result.cases["month"].assertions[0]) == assertion_digest(check)


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
def test_an_evaluator_that_cannot_be_expressed_is_reported_for_each_case(
    parent_folder: Path, judge: Any
) -> None:
    check = Assertion(grader="instructions", params={"evaluators": [judge], "rule": "mean"})
    result = write(parent_folder, [make_case(assertions=(check,)), make_case(id="b", assertions=(check,))])
    assert result.fields == [("month", "assertions[0]"), ("b", "assertions[0]")]


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
def test_a_suite_field_that_cannot_be_expressed_is_reported_and_kept_in_the_first_case(
    parent_folder: Path, place: str, fields: Any, level: str
) -> None:
    suite = replace(SUITE, **fields)
    result = write(parent_folder, [make_case()], suite)
    assert [(problem.level, problem.case, problem.field) for problem in result.problems] == [
        (level, None, place)
    ]
    result = write(parent_folder, [make_case(), make_case(id="b")], suite, lossy=True)
    assert [(problem.level, problem.field) for problem in result.problems] == [("warning", place)]
    metadata = {"suite": {place: as_json(getattr(suite, place))}} if level == "error" else None
    assert [case.metadata.get("proctor") for case in result.cases.values()] in (
        [None, metadata],
        [metadata, None],
    )


def test_a_suite_without_cases_is_a_folder_without_tests(parent_folder: Path) -> None:
    assert set(write(parent_folder, []).files) == {"prompts/README.md"}
