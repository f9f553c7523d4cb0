"""Folders of Markdown tests, and the prompts, attachments, schemas and tools beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import judged_digest, sent_digest
from proctor.dialects import DIALECTS
from proctor.errors import UsageError
from proctor.model import Attachment, Case, Message, Problem, Suite, Tool
from proctor.prompts.fill import fill_prompt
from proctor.protocols import CaseAtLine
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import load_suite
from proctor.services.suites.suite_argument import SuiteLocator
from proctor.targets.api.messages import format_message
from support.suite_files import split_items, write_files

JSONL = '{"id": "b", "input": "?", "expected": "x"}'
TEST = "# 👤\nHow far is the moon?\n---\nSome 384,000 km.\n"
CALM = "---\nid: calm\n---\nYou are calm.\n"
JUDGE = (
    "---\nid: strict\ntags: [_evaluator, _json_mode]\n---\nJudge by:\n`{{_evaluationInstructions}}`\n"
    "# 👤\nIt said `{{ _actualResponse }}`.\n"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, which is the working directory."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def read(path: str, options: dict[str, Any] | None = None) -> tuple[dict[str, Case], list[Problem]]:
    """The cases of a suite by id, without the checks of a session, and the problems."""
    source = source_from_path(Path(path), options=options or {})
    _, cases, problems = split_items(DIALECTS.get("ai_tester").read(source))
    return {case.id: case for case in cases}, problems


def read_cases_by_id(path: str, options: dict[str, Any] | None = None) -> dict[str, Case]:
    by_id, problems = read(path, options)
    assert [str(problem) for problem in problems] == []
    return by_id


def list_problems(path: str, options: dict[str, Any] | None = None) -> list[tuple[str, str, int | None]]:
    """Code, file and line of each problem."""
    return [(problem.code, problem.path, problem.line) for problem in read(path, options)[1]]


def with_front_matter(lines: str, text: str = TEST) -> str:
    return f"---\n{lines}\n---\n{text}"


# --- folders -----------------------------------------------------------------------------------------------


def test_a_folder_is_one_suite_with_its_tests_in_path_order(root: Path) -> None:
    write_files(
        root,
        {
            "sky/b.md": TEST,
            "sky/a/z.md": TEST,
            "sky/A.md": TEST,
            "sky/README.md": "About.",
            "sky/a/ReadMe.MD": "x",
        },
    )
    suite_load = load_suite(Path("sky"))
    assert (suite_load.suite.name, suite_load.suite.dialect, suite_load.suite.case_count) == (
        "sky",
        "ai_tester",
        3,
    )
    assert (suite_load.suite.folder, suite_load.suite.defaults.reuse) == (str(root / "sky"), True)
    assert suite_load.problems == ()
    assert list(read_cases_by_id("sky")) == ["A", "a/z", "b"]
    assert read_cases_by_id("sky")["a/z"].metadata == {"file": "a/z.md"}
    assert list(read_cases_by_id("sky/a/z.md")) == ["z"]


def test_file_endings_may_be_in_capitals(root: Path) -> None:
    write_files(root, {"sky/A.MD": TEST, "prompts/P.Md": JUDGE})
    assert SuiteLocator().find("sky").paths == (Path("sky"),)
    assert [(name, len(read_evaluators(case))) for name, case in read_cases_by_id("sky").items()] == [
        ("A", 1)
    ]


def test_a_folder_with_markdown_tests_is_listed_after_its_other_suites(root: Path) -> None:
    write_files(root, {"sky/deep/er/a.md": TEST, "sky/b.jsonl": JSONL, "sky/readme.md": "x"})
    assert SuiteLocator().find("sky").paths == (
        Path("sky/b.jsonl"),
        Path("sky"),
    )
    assert SuiteLocator().find("sky/deep/er/a.md").paths == (Path("sky/deep/er/a.md"),)
    assert SuiteLocator().find("sky/deep").paths == (Path("sky/deep"),)


@pytest.mark.parametrize(
    "name", ["README.md", "prompts/a.md", "x/prompts/a.md", ".hidden/a.md", ".a.md", "a.txt"]
)
def test_a_folder_without_markdown_tests_has_no_suite(name: str, root: Path) -> None:
    write_files(root, {f"sky/{name}": TEST, "sky/notes.md": "Nothing with # 👤 at the start of a line."})
    with pytest.raises(UsageError, match="or a Markdown test"):
        SuiteLocator().find("sky")


def test_a_file_in_the_folder_that_is_no_test_is_an_error_that_names_it(root: Path) -> None:
    write_files(root, {"sky/a.md": TEST, "sky/notes/b.md": "---\ntags: [x]\n---\nForgot the marker.\n"})
    suite_load = load_suite(Path("sky"))
    (error,) = map(str, suite_load.errors)
    assert error.startswith("sky/notes/b.md:1: error: The file is not a test: no line begins")


def test_a_broken_link_is_an_error(root: Path) -> None:
    write_files(root, {"sky/a.md": TEST})
    (root / "sky/b.md").symlink_to("gone.md")
    (root / "sky/c.md").symlink_to("c.md")
    assert list_problems("sky") == [("missing-file", f"sky/{name}.md", 1) for name in "bc"]


def test_a_linked_folder_with_tests_is_an_error(root: Path) -> None:
    write_files(root, {"sky/a.md": TEST, "far/b.md": TEST, "shared/c.md": CALM, "files/README.md": "x"})
    write_files(root, {"sky/deep/d.md": with_front_matter("systemPrompts: [calm]")})
    for name, link_target in (("sky/far", "../far"), ("sky/prompts", "../shared"), ("sky/files", "../files")):
        (root / name).symlink_to(link_target)
    (root / "sky/deep/loop").symlink_to("..")
    assert list_problems("sky") == [
        ("linked-folder", "sky/deep/loop", None),
        ("linked-folder", "sky/far", None),
    ]
    assert list_problems("sky/a.md") == []


def test_a_duplicate_id_is_an_error_that_names_the_other_file(root: Path) -> None:
    write_files(root, {"sky/a.MD": TEST, "sky/a.md": "\n" + TEST})
    (error,) = map(str, load_suite(Path("sky")).errors)
    assert "sky/a.md:2: error: Case id 'a' is already used at line 1 of sky/a.MD." in error


def test_a_problem_has_the_path_as_the_user_wrote_it_and_the_line(root: Path) -> None:
    write_files(root, {"sky/a.md": TEST, "sky/x/b.md": with_front_matter("tags: [a]\nlnit: ignore")})
    place = [("unknown-field", "sky/x/b.md", 3)]
    assert list_problems("sky") == list_problems("sky/") == list_problems("./sky") == place
    assert list_problems("sky/x/b.md") == place
    assert list_problems(str(root / "sky")) == [("unknown-field", str(root / "sky/x/b.md"), 3)]


def test_the_working_directory_itself_can_be_the_suite(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(root, {"sky/a.md": TEST, "sky/b.md": "x"})
    monkeypatch.chdir(root / "sky")
    assert load_suite(Path()).suite.name == "sky"
    assert list_problems(".") == [("not-a-test", "b.md", 1)]


def test_the_id_of_a_version_may_not_be_that_of_another_file(root: Path) -> None:
    write_files(
        root,
        {"sky/a.md": with_front_matter("replacements: {n: 1}", "# 👤\n{{n}}\n---\nz"), "sky/a[n=1].md": TEST},
    )
    suite_load = load_suite(Path("sky"))
    assert [problem.code for problem in suite_load.errors] == ["duplicate-id"]


# --- system prompts ----------------------------------------------------------------------------------------


def read_suite(path: str) -> Suite:
    return split_items(DIALECTS.get("ai_tester").read(source_from_path(Path(path))))[0]


def test_each_prompt_of_a_test_is_sent_before_its_own_text(root: Path) -> None:
    write_files(
        root,
        {
            "prompts/calm.md": CALM,
            "prompts/deep/loud.md": with_front_matter(
                "id: loud\ntags: [x]\nreplacements: {how: [very, a bit]}", "Be `{{how}}` loud."
            ),
            "prompts/README.md": "About prompts.",
            "tests/a.md": with_front_matter("systemPrompts: [loud, calm]", "Use km.\n" + TEST),
            "tests/b.md": TEST,
            "tests/c.md": with_front_matter("systemPrompts: [calm]"),
        },
    )
    by_id, prompts = read_cases_by_id("tests"), read_suite("tests").defaults.prompts
    assert [prompt.name for prompt in prompts] == ["calm", "loud[how=very]", "loud[how=a bit]"]
    assert {name: case.prompts for name, case in by_id.items()} == {
        "a": ("loud[how=very]", "loud[how=a bit]", "calm"),
        "b": (),
        "c~calm": (),
    }
    messages = [fill_prompt(prompt, by_id["a"])[0] for prompt in prompts]
    assert messages[2] == Message(role="system", content="Be a bit loud.\n\nUse km.")
    assert by_id["a"].metadata == {"file": "a.md"}
    assert [message.role for message in by_id["b"].input] == ["user"]
    assert by_id["c~calm"].input[0] == prompts[0].messages[0]


def test_a_test_with_one_prompt_does_not_change_if_another_has_several(root: Path) -> None:
    write_files(root, {"prompts/a.md": CALM, "prompts/b.md": CALM.replace("calm", "hard")})
    write_files(root, {"t/a.md": with_front_matter("systemPrompts: [calm]")})
    (case_alone,) = read_cases_by_id("t").values()
    assert (case_alone.id, case_alone.prompts, read_suite("t").defaults.prompts) == ("a~calm", None, ())
    write_files(root, {"t/b.md": with_front_matter("systemPrompts: [calm, hard]")})
    case_beside_another = read_cases_by_id("t")["a~calm"]
    assert (sent_digest(case_beside_another), judged_digest(case_beside_another)) == (
        sent_digest(case_alone),
        judged_digest(case_alone),
    )


def test_braces_in_a_prompt_are_sent_as_they_are(root: Path) -> None:
    text = "Write `{% if x %}`, `{# a note #}` or `{{}}`."
    prompts = {f"prompts/{name}.md": with_front_matter(f"id: {name}", text) for name in ("a", "b")}
    write_files(root, {**prompts, "t/t.md": with_front_matter("systemPrompts: [a, b]", "Be brief.\n" + TEST)})
    (case,) = read_cases_by_id("t").values()
    for prompt in read_suite("t").defaults.prompts:
        assert fill_prompt(prompt, case)[0].content == f"{text}\n\nBe brief."


def test_each_version_of_a_test_is_run_with_all_of_its_prompts(root: Path) -> None:
    test = with_front_matter("systemPrompts: [calm, hard]\nreplacements: {n: [1, 2]}", "# 👤\n{{n}}\n---\nz")
    write_files(
        root, {"prompts/a.md": CALM, "prompts/b.md": CALM.replace("calm", "hard"), "tests/t.md": test}
    )
    by_id = read_cases_by_id("tests")
    assert {name: case.prompts for name, case in by_id.items()} == {
        "t[n=1]": ("calm", "hard"),
        "t[n=2]": ("calm", "hard"),
    }


@pytest.mark.parametrize(
    "folder", ["evals/tests/prompts", "evals/tests/x/prompts", "evals/prompts", "prompts"]
)
def test_prompts_are_found_inside_beside_or_above_the_tests(folder: str, root: Path) -> None:
    write_files(
        root, {f"{folder}/calm.md": CALM, "evals/tests/a.md": with_front_matter("systemPrompts: [calm]")}
    )
    assert list(read_cases_by_id("evals/tests")) == ["a~calm"]
    if "x" not in folder:
        assert list(read_cases_by_id("evals/tests/a.md")) == ["a~calm"]


def test_the_nearest_prompts_are_used_and_none_above_the_repository(root: Path) -> None:
    write_files(root, {"prompts/calm.md": CALM, "../prompts/loud.md": CALM.replace("calm", "loud")})
    write_files(root, {"e/tests/a.md": with_front_matter("systemPrompts: [loud]")})
    (problem,) = read("e/tests")[1]
    assert problem.message == (
        "`systemPrompts[0]` is 'loud', and no prompt has that id. Expected one of: calm."
    )
    write_files(root, {"e/prompts/loud.md": CALM.replace("calm", "loud")})
    assert list(read_cases_by_id("e/tests")) == ["a~loud"]


def test_the_folder_of_prompts_can_be_configured(root: Path) -> None:
    write_files(
        root, {"tests/a.md": with_front_matter("systemPrompts: [calm]"), "tests/voices/calm.md": CALM}
    )
    write_files(root, {"prompts/other.md": CALM.replace("calm", "other"), "far/calm.md": CALM})
    for folder in ("voices", "./voices/", "../far", str(root / "far")):
        options = {"prompts": folder}
        by_id, problems = read("tests", options)
        assert list(by_id) == ["a~calm"]
        assert [problem.path for problem in problems] == (
            [] if "voices" in folder else ["tests/voices/calm.md"]
        )
    assert list_problems("tests", {"prompts": "none"})[0] == ("no-prompts", "tests", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You are calm.", [("missing-field", 1)]),
        (with_front_matter("id: 3", "x"), [("wrong-type", 2)]),
        (with_front_matter("id: a\ntag: [b]", "x"), [("unknown-field", 3)]),
        (with_front_matter("id: a", ""), [("empty-prompt", 4)]),
        (with_front_matter("id: a", "x\n\n# 👤 y"), [("turn-in-prompt", 6)]),
        (with_front_matter("id: a", "x {{y}}"), [("unresolved-placeholder", 4)]),
        (with_front_matter("id: a", "{{_actualResponse}}"), [("reserved-name", 4)]),
        (with_front_matter("id: a", "x\n{{_file:a.txt}}"), [("misplaced-file", 4)]),
        (with_front_matter("id: a\ntags: [_json_mode]", "x"), [("no-effect", 3)]),
        (with_front_matter("id: a\ntags: [_evaluater]", "x"), [("unknown-special-tag", 3)]),
        (with_front_matter("id: a\nreplacements: {b: [1, 1]}", "{{b}}"), [("duplicate-version", 3)]),
        (with_front_matter("id: calm", "x"), [("duplicate-id", 1)]),
        (with_front_matter("id: [", "x"), [("bad-yaml", 2)]),
        (with_front_matter("id: a", "x\n<!-- y -->"), [("comment", 5)]),
    ],
)
def test_a_mistake_in_a_prompt_is_reported_at_its_line(text: str, expected: list[Any], root: Path) -> None:
    write_files(root, {"prompts/a.md": CALM, "prompts/b.md": text, "tests/t.md": TEST})
    assert list_problems("tests") == [(code, "prompts/b.md", line) for code, line in expected]


def test_a_prompt_with_an_error_is_not_also_unknown(root: Path) -> None:
    write_files(
        root,
        {
            "prompts/b.md": with_front_matter("id: a", "{{y}}"),
            "tests/t.md": with_front_matter("systemPrompts: [a]"),
        },
    )
    assert list_problems("tests") == [("unresolved-placeholder", "prompts/b.md", 4)]


def test_a_missing_prompt_is_an_error_that_says_where_prompts_are_kept(root: Path) -> None:
    write_files(root, {"tests/t.md": with_front_matter("systemPrompts: [a]")})
    (problem,) = read("tests")[1]
    assert "There is no prompt in a folder `prompts/`" in problem.message


# --- evaluators --------------------------------------------------------------------------------------------


def read_evaluators(case: Case) -> Any:
    (assertion,) = case.assertions
    assert assertion.grader == "instructions"
    return assertion.params.get("evaluators")


def test_every_evaluator_prompt_judges_every_case(root: Path) -> None:
    mild = JUDGE.replace("strict", "mild").replace("Judge by", "{{how}}").replace("[_e", "[a, _e")
    mild = mild.replace("---\nid", "---\nreplacements: {how: [Kindly, Gently]}\nid")
    write_files(
        root,
        {"prompts/b.md": JUDGE, "prompts/m.md": mild, "prompts/a.md": CALM, "t/a.md": TEST, "t/b.md": TEST},
    )
    first, second = read_cases_by_id("t").values()
    assert read_evaluators(first) == [
        {
            "id": "strict",
            "system": "Judge by:\n`{{ instructions }}`",
            "user": "It said `{{ answer }}`.",
        },
        {
            "id": "mild[how=Kindly]",
            "system": "Kindly:\n`{{ instructions }}`",
            "user": "It said `{{ answer }}`.",
        },
        {
            "id": "mild[how=Gently]",
            "system": "Gently:\n`{{ instructions }}`",
            "user": "It said `{{ answer }}`.",
        },
    ]
    assert first.assertions == second.assertions
    assert load_suite(Path("t")).problems == ()


def test_the_evaluators_can_be_chosen_by_id(root: Path) -> None:
    write_files(
        root, {"prompts/a.md": JUDGE, "prompts/b.md": JUDGE.replace("strict", "mild"), "t/a.md": TEST}
    )
    assert [
        evaluator["id"] for evaluator in read_evaluators(read_cases_by_id("t", {"evaluators": ["mild"]})["a"])
    ] == ["mild"]
    (problem,) = read("t", {"evaluators": ["strikt"]})[1]
    assert (problem.code, problem.path) == ("unknown-evaluator", "t")
    assert "Did you mean 'strict'?" in problem.message


def test_an_evaluator_prompt_may_use_plain_variable_names(root: Path) -> None:
    prompt = with_front_matter(
        "id: e\ntags: [_evaluator]", "Asked: {{_input}}\n# 👤\n{{answer}} {{instructions}} {{ input }}"
    )
    write_files(root, {"prompts/e.md": prompt, "t/a.md": TEST})
    (evaluator,) = read_evaluators(read_cases_by_id("t")["a"])
    assert evaluator["system"] == "Asked: {{ input }}"
    assert evaluator["user"] == "{{ answer }} {{ instructions }} {{ input }}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Judge {{_evaluationInstructions}}.\n# 👤\nx", [("no-answer", 7)]),
        ("Judge.\n# 👤\n{{_actualResponse}}", [("no-instructions", 5)]),
        ("Judge {{_actualResponse}}.", [("turn-order", 5)]),
        ("# 👤\n{{_actualResponse}} {{instructions}}", [("empty-prompt", 5)]),
        ("J {{answer}}\n# 👤\n{{instructions}}\n# 🤖\nx", [("turn-order", 6)]),
        ("J {{answer}}\n# 👤\n", [("empty-turn", 6)]),
        ("J {{_actualAnswer}}\n# 👤\n{{instructions}}", [("reserved-name", 5)]),
        ("J {{other}}\n# 👤\n{{answer}} {{instructions}}", [("unresolved-placeholder", 5)]),
    ],
)
def test_an_evaluator_prompt_must_have_a_system_text_one_turn_and_the_answer(
    body: str, expected: list[Any], root: Path
) -> None:
    write_files(root, {"prompts/e.md": with_front_matter("id: e\ntags: [_evaluator]", body), "t/a.md": TEST})
    assert list_problems("t") == [(code, "prompts/e.md", line) for code, line in expected]


def test_an_evaluator_prompt_cannot_be_a_system_prompt(root: Path) -> None:
    write_files(root, {"prompts/e.md": JUDGE, "t/a.md": with_front_matter("systemPrompts: [strict]")})
    assert list_problems("t") == [("evaluator-prompt", "t/a.md", 2)]


# --- attachments -------------------------------------------------------------------------------------------


def test_a_file_is_sent_at_the_position_of_its_placeholder(root: Path) -> None:
    files = {
        "t/pics/moon.png": b"\x89PNG",
        "t/facts.txt": b"\xef\xbb\xbfone\r\ntwo\r\n",
        "maps/m.pdf": b"%PDF",
    }
    text = "Look at\n`{{_file:pics/moon.png}}`\nand\n\n{{ _file:facts.txt }}\n\n`{{_file:maps/m.pdf}}`\nNow?"
    write_files(root, {**files, "t/a/a.md": f"# 👤\n{text}\n---\nz"})
    (message,) = read_cases_by_id("t")["a/a"].input
    assert message.parts == (
        "Look at",
        Attachment(kind="image", path="pics/moon.png", media_type="image/png", data=b"\x89PNG"),
        "and",
        Attachment(kind="file", path="facts.txt", text="one\ntwo\n"),
        Attachment(kind="file", path="maps/m.pdf", media_type="application/pdf", data=b"%PDF"),
        "Now?",
    )
    assert message.content == "Look at\n\nand\n\nNow?"


def test_the_ending_of_a_file_decides_whether_it_is_audio_or_video(root: Path) -> None:
    write_files(root, {"t/a.mp3": b"ID3", "t/b.WEBM": b"\x1aE", "t/c.zip": b"PK"})
    write_files(root, {"t/a.md": "# 👤\n{{_file:a.mp3}}\n{{_file:b.WEBM}}\n{{_file:c.zip}}\n---\nz"})
    (message,) = read_cases_by_id("t")["a"].input
    assert message.parts == (
        Attachment(kind="audio", path="a.mp3", media_type="audio/mpeg", data=b"ID3"),
        Attachment(kind="video", path="b.WEBM", media_type="video/webm", data=b"\x1aE"),
        Attachment(kind="file", path="c.zip", media_type="application/zip", data=b"PK"),
    )


def test_the_text_around_a_file_in_the_same_line_is_unchanged(root: Path) -> None:
    write_files(root, {"t/moon.png": b"\x89PNG", "t/a.txt": "one"})
    line = "Compare (`{{_file:moon.png}}`) with `{{_file:a.txt}}` `{{_file:moon.png}}`:"
    text = f"{line}\n\n  - {{{{_file:a.txt}}}}\n  - x"
    write_files(root, {"t/a.md": f"# 👤\n{text}\n---\nz"})
    (message,) = read_cases_by_id("t")["a"].input
    moon = Attachment(kind="image", path="moon.png", media_type="image/png", data=b"\x89PNG")
    facts = Attachment(kind="file", path="a.txt", text="one")
    texts = ("Compare (", ") with ", ":\n\n  - ", "\n  - x")
    assert message.inline
    assert message.parts == (texts[0], moon, texts[1], facts, " ", moon, texts[2], facts, texts[3])
    assert message.content == "".join((*texts[:2], " ", *texts[2:]))
    assert format_message(message) == (
        'Compare (<image: path="moon.png">) with <file path="a.txt">\none\n</file> <image: path="moon.png">:'
        '\n\n  - <file path="a.txt">\none\n</file>\n  - x'
    )


PIECES = st.sampled_from(["`{{_file:a.txt}}`", "x", "(", "), ", "\n", "  - ", " ", "`code`"])


@pytest.mark.slow
@given(st.lists(PIECES).map("".join))
def test_replacing_inline_files_by_their_references_gives_the_original_turn(
    tmp_path_factory: Any, middle: str
) -> None:
    folder = tmp_path_factory.mktemp("t")
    text = f"See `{{{{_file:a.txt}}}}` {middle}".strip()
    write_files(folder, {"a.txt": "one", "a.md": f"# 👤\n{text}\n---\nz"})
    (located_case,) = [
        item
        for item in DIALECTS.get("ai_tester").read(source_from_path(folder / "a.md"))
        if isinstance(item, CaseAtLine)
    ]
    assert format_message(located_case.case.input[0], lambda file: f"`{{{{_file:{file.path}}}}}`") == text


def test_a_file_in_a_line_of_its_own_is_a_paragraph(root: Path) -> None:
    write_files(root, {"t/a.txt": "one", "t/a.md": "# 👤\nRead:\n  `{{_file:a.txt}}`  \nNow?\n---\nz"})
    (message,) = read_cases_by_id("t")["a"].input
    assert (message.inline, message.content) == (False, "Read:\n\nNow?")


def test_replacements_can_name_a_file_whose_content_changes_the_sent_digest(root: Path) -> None:
    lines = "replacements:\n  - scan: '{{_file:{{name}}.jpg}}'\n    name: one\n  - scan: none\n    name: two"
    write_files(
        root, {"t/one.jpg": b"1", "t/a.md": with_front_matter(lines, "# 👤\n`{{scan}}`\n---\n{{name}}")}
    )
    first, second = read_cases_by_id("t").values()
    assert (first.input[0].content, second.input[0].content) == ("", "none")
    assert len(first.input[0].parts) == 1
    write_files(root, {"t/one.jpg": b"2"})
    again = next(iter(read_cases_by_id("t").values()))
    assert again.id == first.id
    assert sent_digest(again) != sent_digest(first)


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("gone.png", "missing-file", "'gone.png' is not in"),
        ("tool.exe", "unknown-ending", "Known extensions: .txt, .md"),
        ("none", "unknown-ending", "Known extensions"),
        ("", "unknown-ending", "Known extensions"),
        ("bad.txt", "bad-encoding", "Byte 1"),
    ],
)
def test_a_file_that_cannot_be_sent_is_an_error(name: str, code: str, hint: str, root: Path) -> None:
    write_files(
        root, {"t/bad.txt": b"\xff", "t/tool.exe": b"", "t/a.md": f"# 👤\nx\n\n{{{{_file:{name}}}}}\n---\nz"}
    )
    (problem,) = read("t")[1]
    assert (problem.code, problem.line) == (code, 2)
    assert hint in problem.message


def test_a_missing_file_is_reported_once_per_version_even_with_several_prompts(root: Path) -> None:
    lines = "systemPrompts: [calm, loud]\nreplacements: {f: [a.txt, b.txt]}"
    write_files(root, {"prompts/a.md": CALM, "prompts/b.md": CALM.replace("calm", "loud")})
    write_files(root, {"t/a.md": with_front_matter(lines, "# 👤\n{{_file:{{f}}}}\n---\nz")})
    assert list_problems("t") == [("missing-file", "t/a.md", 6)] * 2


def test_attached_markdown_need_not_be_a_test(root: Path) -> None:
    write_files(root, {"t/a.md": "# 👤\n{{_file:notes/n.md}}\n---\nz", "t/notes/n.md": "# Notes"})
    assert list(read_cases_by_id("t")) == ["a"]


# --- schemas and tools -------------------------------------------------------------------------------------

SCHEMA = "id: parcel\ntype: object\nproperties:\n  weight: {type: number}\n"
WEATHER = "id: sky\nname: get_sky\ndescription: The sky over a city.\nparameters:\n  type: object\n"


@pytest.mark.parametrize("place", ["structured-schemas/p.yaml", "t/schemas/x/p.json", "schemas/p.yml"])
def test_a_schema_is_found_by_its_id_and_sent(place: str, root: Path) -> None:
    write_files(
        root, {place: SCHEMA, "t/a.md": with_front_matter("structuredResponseSchema: parcel"), "t/b.md": TEST}
    )
    by_id = read_cases_by_id("t")
    form = by_id["a"].form
    assert form is not None
    assert form.schema == {"type": "object", "properties": {"weight": {"type": "number"}}}
    assert (form.json, form.tools, by_id["b"].form) == (False, (), None)
    assert sent_digest(by_id["a"]) != sent_digest(by_id["b"])


def test_tools_are_found_by_their_ids_and_sent_in_the_order_of_the_test(root: Path) -> None:
    write_files(root, {"tools/b.yaml": WEATHER, "tool-definitions/a.yaml": "id: bell\nname: ring\n"})
    write_files(root, {"t/a.md": with_front_matter("tags: [_has_tools]\navailableTools: [sky, bell]")})
    form = read_cases_by_id("t")["a"].form
    assert form is not None
    assert form.special_tags == ("_has_tools",)
    sky = Tool(name="get_sky", description="The sky over a city.", parameters={"type": "object"})
    assert form.tools == (sky, Tool(name="ring"))


@pytest.mark.parametrize(
    ("file", "text", "lines", "expected"),
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
def test_mistakes_in_schemas_and_tools_are_reported(
    file: str, text: str, lines: str, expected: list[str], root: Path
) -> None:
    write_files(root, {file: text, "t/a.md": with_front_matter(lines)})
    assert [f"{path}:{line} {code}" for code, path, line in list_problems("t")] == expected


def test_two_schemas_of_one_id_are_an_error(root: Path) -> None:
    write_files(root, {"schemas/a.yaml": SCHEMA, "schemas/b.yaml": SCHEMA})
    write_files(root, {"t/a.md": with_front_matter("structuredResponseSchema: parcel")})
    assert list_problems("t") == [("duplicate-id", "schemas/b.yaml", 1)]


# --- sizes -------------------------------------------------------------------------------------------------


def test_no_file_is_read_twice(root: Path) -> None:
    write_files(
        root, {"prompts/a.md": CALM, "prompts/e.md": JUDGE, "schemas/s.yaml": SCHEMA, "t/m.png": b"x"}
    )
    test = with_front_matter(
        "systemPrompts: [calm]\nstructuredResponseSchema: parcel", "# 👤\n{{_file:m.png}}\n" + TEST
    )
    write_files(
        root, {f"t/{at:03}.md": test.replace("384", f"{at}").replace("# 👤\nHow", "How") for at in range(100)}
    )
    source = source_from_path(Path("t"))
    paths: list[str] = []

    def find(path: str) -> Any:
        paths.append(path)
        return source.find_file(path)

    items = list(DIALECTS.get("ai_tester").read(replace(source, find_file=find)))
    assert sum(isinstance(item, CaseAtLine) for item in items) == 100
    assert len(paths) == len(set(paths)) == 104
