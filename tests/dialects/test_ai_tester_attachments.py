"""What Markdown tests refer to besides prompts: attachments, schemas and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import sent_digest
from proctor.dialects import DIALECTS
from proctor.model import Attachment, Case, Problem, Tool
from proctor.protocols import CaseAtLine
from proctor.services.suites.file_source import source_from_path
from proctor.targets.api.messages import format_message
from support.suite_files import write_files

TEST = "# 👤\nHow far is the moon?\n---\nSome 384,000 km.\n"
CALM = "---\nid: calm\n---\nYou are calm.\n"
JUDGE = "---\nid: e\ntags: [_evaluator]\n---\nBy {{instructions}}:\n# 👤\n{{answer}}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in which the working directory is."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def read() -> tuple[dict[str, Case], list[Problem]]:
    """The cases of the folder `t` by id, and the problems."""
    items = list(DIALECTS.get("ai_tester").read(source_from_path(Path("t"))))
    found = {item.case.id: item.case for item in items if isinstance(item, CaseAtLine)}
    return found, [item for item in items if isinstance(item, Problem)]


def cases() -> dict[str, Case]:
    found, problems = read()
    assert [str(problem) for problem in problems] == []
    return found


def told() -> list[tuple[str, str, int | None]]:
    """Code, file and line of each problem."""
    return [(problem.code, problem.path, problem.line) for problem in read()[1]]


def with_front(lines: str, text: str = TEST) -> str:
    return f"---\n{lines}\n---\n{text}"


# --- attachments -------------------------------------------------------------------------------------------


def test_a_file_is_sent_where_its_placeholder_stands(root: Path) -> None:
    files = {
        "t/pics/moon.png": b"\x89PNG",
        "t/facts.txt": b"\xef\xbb\xbfone\r\ntwo\r\n",
        "maps/m.pdf": b"%PDF",
    }
    text = "Look at\n`{{_file:pics/moon.png}}`\nand\n\n{{ _file:facts.txt }}\n\n`{{_file:maps/m.pdf}}`\nNow?"
    write_files(root, {**files, "t/a/a.md": f"# 👤\n{text}\n---\nz"})
    (message,) = cases()["a/a"].input
    assert message.parts == (
        "Look at",
        Attachment(kind="image", path="pics/moon.png", media_type="image/png", data=b"\x89PNG"),
        "and",
        Attachment(kind="file", path="facts.txt", text="one\ntwo\n"),
        Attachment(kind="file", path="maps/m.pdf", media_type="application/pdf", data=b"%PDF"),
        "Now?",
    )
    assert message.content == "Look at\n\nand\n\nNow?"


def test_the_text_around_a_file_in_its_line_stays_as_it_stood(root: Path) -> None:
    write_files(root, {"t/moon.png": b"\x89PNG", "t/a.txt": "one"})
    text = "Compare (`{{_file:moon.png}}`) with `{{_file:a.txt}}` `{{_file:moon.png}}`:\n\n  - {{_file:a.txt}}\n  - x"
    write_files(root, {"t/a.md": f"# 👤\n{text}\n---\nz"})
    (message,) = cases()["a"].input
    moon = Attachment(kind="image", path="moon.png", media_type="image/png", data=b"\x89PNG")
    facts = Attachment(kind="file", path="a.txt", text="one")
    texts = ("Compare (", ") with ", ":\n\n  - ", "\n  - x")
    assert message.inline
    assert message.parts == (texts[0], moon, texts[1], facts, " ", moon, texts[2], facts, texts[3])
    assert message.content == "".join((*texts[:2], " ", *texts[2:]))
    assert format_message(message) == (
        'Compare (<image: path="moon.png">) with <file path="a.txt">\none\n</file> <image: path="moon.png">:\n\n'
        '  - <file path="a.txt">\none\n</file>\n  - x'
    )


PIECES = st.sampled_from(["`{{_file:a.txt}}`", "x", "(", "), ", "\n", "  - ", " ", "`code`"])


@pytest.mark.slow
@given(st.lists(PIECES).map("".join))
def test_a_running_text_with_its_references_put_back_is_the_turn(tmp_path_factory: Any, middle: str) -> None:
    folder = tmp_path_factory.mktemp("t")
    text = f"See `{{{{_file:a.txt}}}}` {middle}".strip()
    write_files(folder, {"a.txt": "one", "a.md": f"# 👤\n{text}\n---\nz"})
    (placed,) = [
        item for item in DIALECTS.get("ai_tester").read(source_from_path(folder / "a.md")) if isinstance(item, CaseAtLine)
    ]
    assert format_message(placed.case.input[0], lambda file: f"`{{{{_file:{file.path}}}}}`") == text


def test_a_file_in_a_line_of_its_own_is_a_paragraph(root: Path) -> None:
    write_files(root, {"t/a.txt": "one", "t/a.md": "# 👤\nRead:\n  `{{_file:a.txt}}`  \nNow?\n---\nz"})
    (message,) = cases()["a"].input
    assert (message.inline, message.content) == (False, "Read:\n\nNow?")


def test_a_file_can_be_named_by_replacements_and_its_content_is_a_part_of_what_is_sent(root: Path) -> None:
    lines = "replacements:\n  - scan: '{{_file:{{name}}.jpg}}'\n    name: one\n  - scan: none\n    name: two"
    write_files(root, {"t/one.jpg": b"1", "t/a.md": with_front(lines, "# 👤\n`{{scan}}`\n---\n{{name}}")})
    first, second = cases().values()
    assert (first.input[0].content, second.input[0].content) == ("", "none")
    assert len(first.input[0].parts) == 1
    write_files(root, {"t/one.jpg": b"2"})
    again = next(iter(cases().values()))
    assert again.id == first.id
    assert sent_digest(again) != sent_digest(first)


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("gone.png", "missing-file", "'gone.png' is not in"),
        ("tool.exe", "unknown-ending", "Known are: .txt, .md"),
        ("none", "unknown-ending", "Known are"),
        ("", "unknown-ending", "Known are"),
        ("bad.txt", "bad-encoding", "Byte 1"),
    ],
)
def test_a_file_that_cannot_be_sent_is_an_error(name: str, code: str, hint: str, root: Path) -> None:
    write_files(
        root, {"t/bad.txt": b"\xff", "t/tool.exe": b"", "t/a.md": f"# 👤\nx\n\n{{{{_file:{name}}}}}\n---\nz"}
    )
    (problem,) = read()[1]
    assert (problem.code, problem.line) == (code, 2)
    assert hint in problem.message


def test_each_row_with_a_missing_file_is_told_once_though_each_prompt_makes_a_case(root: Path) -> None:
    lines = "systemPrompts: [calm, loud]\nreplacements: {f: [a.txt, b.txt]}"
    write_files(root, {"prompts/a.md": CALM, "prompts/b.md": CALM.replace("calm", "loud")})
    write_files(root, {"t/a.md": with_front(lines, "# 👤\n{{_file:{{f}}}}\n---\nz")})
    assert told() == [("missing-file", "t/a.md", 6)] * 2


def test_markdown_that_is_attached_need_not_be_a_test(root: Path) -> None:
    write_files(root, {"t/a.md": "# 👤\n{{_file:notes/n.md}}\n---\nz", "t/notes/n.md": "# Notes"})
    assert list(cases()) == ["a"]


# --- schemas and tools -------------------------------------------------------------------------------------

SCHEMA = "id: parcel\ntype: object\nproperties:\n  weight: {type: number}\n"
WEATHER = "id: sky\nname: get_sky\ndescription: The sky over a city.\nparameters:\n  type: object\n"


@pytest.mark.parametrize("place", ["structured-schemas/p.yaml", "t/schemas/x/p.json", "schemas/p.yml"])
def test_a_schema_is_found_by_its_id_and_sent(place: str, root: Path) -> None:
    write_files(root, {place: SCHEMA, "t/a.md": with_front("structuredResponseSchema: parcel"), "t/b.md": TEST})
    found = cases()
    form = found["a"].form
    assert form is not None
    assert form.schema == {"type": "object", "properties": {"weight": {"type": "number"}}}
    assert (form.json, form.tools, found["b"].form) == (False, (), None)
    assert sent_digest(found["a"]) != sent_digest(found["b"])


def test_tools_are_found_by_their_ids_and_sent_in_the_order_of_the_test(root: Path) -> None:
    write_files(root, {"tools/b.yaml": WEATHER, "tool-definitions/a.yaml": "id: bell\nname: ring\n"})
    write_files(root, {"t/a.md": with_front("tags: [_has_tools]\navailableTools: [sky, bell]")})
    form = cases()["a"].form
    assert form is not None
    assert form.special_tags == ("_has_tools",)
    sky = Tool(name="get_sky", description="The sky over a city.", parameters={"type": "object"})
    assert form.tools == (sky, Tool(name="ring"))


@pytest.mark.parametrize(
    ("file", "text", "lines", "found"),
    [
        ("x.txt", "", "structuredResponseSchema: parcel", ["t/a.md:2 unknown-id"]),
        ("schemas/a.yaml", SCHEMA, "structuredResponseSchema: parsel", ["t/a.md:2 unknown-id"]),
        (
            *("schemas/a.yaml", "type: object", "structuredResponseSchema: p"),
            ["schemas/a.yaml:1 missing-field", "t/a.md:2 unknown-id"],
        ),
        (
            *("schemas/a.yaml", "id: p\ntype: objct", "structuredResponseSchema: p"),
            ["schemas/a.yaml:2 bad-schema"],
        ),
        ("tools/a.yaml", WEATHER, "availableTools: [sky, sky]", ["t/a.md:2 duplicate-tool"]),
        ("tools/a.yaml", WEATHER + "x: true", "availableTools: [sky]", ["tools/a.yaml:6 unknown-field"]),
        (
            "tools/a.yaml",
            "- x",
            "availableTools: [sky]",
            ["tools/a.yaml:1 wrong-type", "t/a.md:2 unknown-id"],
        ),
        ("tools/a.yaml", WEATHER, "availableTools: sky", ["t/a.md:2 wrong-type"]),
        ("tools/a.yaml", WEATHER, "availableTools: []", ["t/a.md:2 empty-list"]),
        ("tools/a.yaml", "id: [", "availableTools: [x]", ["tools/a.yaml:1 bad-yaml", "t/a.md:2 unknown-id"]),
    ],
)
def test_what_is_wrong_with_schemas_and_tools_is_told(
    file: str, text: str, lines: str, found: list[str], root: Path
) -> None:
    write_files(root, {file: text, "t/a.md": with_front(lines)})
    assert [f"{path}:{line} {code}" for code, path, line in told()] == found


def test_two_schemas_of_one_id_are_an_error(root: Path) -> None:
    write_files(root, {"schemas/a.yaml": SCHEMA, "schemas/b.yaml": SCHEMA})
    write_files(root, {"t/a.md": with_front("structuredResponseSchema: parcel")})
    assert told() == [("duplicate-id", "schemas/b.yaml", 1)]


# --- sizes -------------------------------------------------------------------------------------------------


def test_no_file_is_read_twice(root: Path) -> None:
    write_files(root, {"prompts/a.md": CALM, "prompts/e.md": JUDGE, "schemas/s.yaml": SCHEMA, "t/m.png": b"x"})
    test = with_front(
        "systemPrompts: [calm]\nstructuredResponseSchema: parcel", "# 👤\n{{_file:m.png}}\n" + TEST
    )
    write_files(
        root, {f"t/{at:03}.md": test.replace("384", f"{at}").replace("# 👤\nHow", "How") for at in range(100)}
    )
    source = source_from_path(Path("t"))
    asked: list[str] = []

    def find(path: str) -> Any:
        asked.append(path)
        return source.find_file(path)

    items = list(DIALECTS.get("ai_tester").read(replace(source, find_file=find)))
    assert sum(isinstance(item, CaseAtLine) for item in items) == 100
    assert len(asked) == len(set(asked)) == 104
