"""Uploads: read from memory alone, checked, and saved only without side effects on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import SuiteError, UsageError
from proctor.protocols import Store
from proctor.services.suites.save_and_open import SaveResult
from proctor.services.suites.save_upload import (
    PAGE_CODE,
    DraftSettings,
    UploadDraft,
    check_upload,
    save_draft,
)
from proctor.services.suites.trash import Trash
from proctor.services.suites.upload import (
    FOLDER_CHOICE,
    Upload,
    choose_suite,
    source_from_upload,
    upload_from_files,
    upload_from_text,
)
from proctor.stores import open_store

LINE = '{"id": "%s", "input": "Say %s", "expected": "%s", "scorer": "contains"}\n'
JSONL = "".join(LINE % (f"t{n}", "a word", f"w{n}") for n in range(10))
CSV = "id,input,expected,scorer\na,What is 2+2?,4,exact\nb,Capital of France?,Paris,contains\n"
YAML = (
    "tests:\n  - id: a\n    input: hello\n    criteria: greets\n    assertions:\n"
    "      - {type: contains, value: hi}\n"
)
MARKDOWN = "# 👤\n\nWhat is 2+2?\n\n---\n\nThe answer is four.\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "proctor.db"))


def check(upload: Upload, **settings: Any) -> UploadDraft:
    return check_upload(upload, DraftSettings(**settings))


def save(store: Store, upload: Upload, **settings: Any) -> SaveResult:
    return save_draft(store, upload, DraftSettings(**settings))


def list_problems(text: str) -> list[tuple[str, str, int | None]]:
    draft = check(upload_from_text(text))
    return [(problem.level, problem.code, problem.line) for problem in draft.problems]


@pytest.mark.parametrize(
    ("text", "dialect", "ending"),
    [
        (JSONL, "meridian", ".jsonl"),
        (CSV, "meridian", ".csv"),
        (YAML, "agentv", ".yaml"),
        (MARKDOWN, "ai_tester", ".md"),
    ],
)
def test_the_dialect_of_a_pasted_text_is_found_from_its_content(text: str, dialect: str, ending: str) -> None:
    upload = upload_from_text(text)
    draft = check(upload)
    assert (draft.suite and draft.suite.dialect, draft.errors) == (dialect, [])
    assert upload.main.endswith(ending)
    assert check(upload_from_text(f"\ufeff{text}")).suite == draft.suite, "a byte order mark changes nothing"


def test_a_text_that_took_the_place_of_another_in_the_editor_is_read_as_what_it_is() -> None:
    assert upload_from_text(JSONL, "tests.csv").main == "tests.jsonl"
    assert upload_from_text(YAML, "suite.yml").main == "suite.yml"
    assert upload_from_text(CSV, "../../etc/passwd.csv").main == "passwd.csv"


@pytest.mark.parametrize(
    ("data", "word"),
    [("", "no input"), (" \n", "no input"), ("a\0b", "NUL character on line 1"), ("x\ud800", "UTF-8")],
)
def test_what_is_no_text_is_refused_with_a_sentence(data: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        upload_from_text(data)


def test_files_that_are_not_utf_8_are_refused_with_the_line() -> None:
    with pytest.raises(UsageError, match="line 2"):
        check(upload_from_files({"a.jsonl": b"{}\n\xff\n"}))
    with pytest.raises(UsageError, match="UTF-16"):
        check(upload_from_files({"a.jsonl": JSONL.encode("utf-16")}))


def test_every_problem_is_at_its_line_and_the_words_are_those_of_the_linter() -> None:
    text = (LINE % ("leaky", "the answer is 42", "42")) + '{"id": "e", "input": "x", "scorer": "llm_judge"}\n'
    draft = check(upload_from_text(text))
    assert ("warning", "leak", 1) in list_problems(text)
    assert ("error", "missing-rubric", 2) in list_problems(text)
    assert any(
        "LEAK WARNING: Test 'leaky' input contains expected answer" in problem.message
        for problem in draft.warnings
    )
    assert any("uses llm_judge but missing 'rubric'" in problem.message for problem in draft.errors)
    assert draft.read == 2


def test_a_suite_from_a_page_is_always_split_in_80_and_20() -> None:
    draft = check(upload_from_text(JSONL))
    assert (len(draft.holdout), draft.suite and draft.suite.case_count) == (2, 10)
    plain = check(upload_from_text(YAML))
    assert plain.suite is not None
    assert plain.suite.split_rule is not None
    assert plain.suite.split_rule.ratio == 0.2


def test_a_suite_from_a_page_is_split_as_its_header_or_else_the_form_says() -> None:
    def share(text: str, holdout: float | None = None) -> float | None:
        suite = check(upload_from_text(text), holdout=holdout).suite
        assert suite is not None
        assert suite.no_holdout is (suite.split_rule is None)
        return None if suite.split_rule is None else suite.split_rule.ratio

    header = '{"suite_name": "s", "holdout": %s}\n'
    assert share(header % "0" + JSONL) is None
    assert share(header % "0" + JSONL, 0.3) == 0.3
    assert share(header % "0.5" + JSONL) == 0.5
    assert share(header % "0.5" + JSONL, 0) is None
    assert share(YAML, 0) is None
    with pytest.raises(UsageError, match=r"The share held out is 1\.5\. Give a share below 1"):
        check(upload_from_text(JSONL), holdout=1.5)


# --- what a page may not say -------------------------------------------------------------------------------

HEADER = '{"proctor": 1, "name": "p"}\n{"id": "a", '
INPUT = '"input": [{"role": "user", "content": "x"}], '
EXACT = '"assertions": [{"grader": "exact", "params": {"value": "y"}}]}\n'
CASE = "tests:\n  - id: a\n    criteria: x\n    input: hello\n"
FORBIDDEN = {
    "a program": f"{CASE}    assertions:\n      - {{type: code-grader, command: [touch, x]}}\n",
    "a program in a composite": f"{CASE}    assertions:\n      - type: composite\n        assertions:\n"
    "          - {type: contains, value: x, name: one}\n"
    "          - {type: code-grader, name: two, command: [touch, x]}\n"
    "        aggregator: {type: weighted_average}\n",
    "a program that weighs": f"{CASE}    assertions:\n      - type: composite\n        assertions:\n"
    "          - {type: contains, value: x, name: one}\n"
    "        aggregator: {type: code-grader, path: x.py}\n",
    "a judge": f"{CASE}    assertions:\n      - {{type: llm-grader, prompt: ok, target: 'cli:rm -rf /'}}\n",
    "a workspace": f"{CASE}    assertions: [{{type: contains, value: x}}]\n"
    "    workspace: {template: /etc}\n",
    "a hook": f"{CASE}    assertions: [{{type: contains, value: x}}]\n    workspace:\n      hooks:\n"
    "        before_all: {command: [touch, x]}\n",
    "a variable": "tests:\n  - id: a\n    criteria: x\n    input: 'key ${{ HOME }}'\n    assertions:\n"
    "      - {type: contains, value: x}\n",
    "a judge in proctor": HEADER
    + INPUT
    + '"assertions": [{"grader": "llm_grader", "params": {"prompt": "ok?", "judge": "cli:x"}}]}\n',
    "a target in proctor": f'{HEADER}{INPUT}"target": "python:os:system", {EXACT}',
    "a variable in proctor": HEADER
    + '"input": [{"role": "user", "content": "${{ HOME }}"}], "variables": ["HOME"], '
    + EXACT,
    "a program in proctor": HEADER
    + INPUT
    + '"assertions": [{"grader": "program", "params": {"command": ["touch", "x"]}}]}\n',
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_acts_on_this_machine_is_an_error_at_its_line_and_is_not_saved(what: str, store: Store) -> None:
    upload = upload_from_text(FORBIDDEN[what])
    problems = [problem for problem in check(upload).errors if problem.code == PAGE_CODE]
    assert problems, check(upload).problems
    assert all(problem.line is not None and problem.line > 1 for problem in problems)
    assert "proctor suites save" in problems[0].message
    with pytest.raises(SuiteError):
        save(store, upload)
    assert store.versions() == []


def test_targets_and_judges_of_the_server_may_be_named(store: Store) -> None:
    for what in ("a judge in proctor", "a target in proctor"):
        upload = upload_from_text(
            FORBIDDEN[what].replace("cli:x", "known").replace("python:os:system", "known")
        )
        assert check(upload, own_targets=["known"]).errors == []
        assert save(store, upload, name=what, own_targets=["known"]).suite.version == "v1"


def test_targets_that_a_suite_wants_to_be_run_on_are_left_out_with_a_warning(store: Store) -> None:
    wants = '"name": "p", "defaults": {"targets": ["cli:rm -rf /", "known"]}'
    text = f"{HEADER}{INPUT}{EXACT}".replace('"name": "p"', wants)
    draft = check(upload_from_text(text), own_targets=["known"])
    assert [problem.level for problem in draft.problems if problem.code == PAGE_CODE] == ["warning"]
    saved = save(store, upload_from_text(text), name="one", own_targets=["known"])
    assert saved.suite.defaults.targets == ("known",)


def test_an_upload_sees_no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    text = "# 👤\n\n{{_file: secret.md}}\n\n---\n\nx\n"
    assert [problem.code for problem in check(upload_from_text(text)).errors] == ["missing-file"]
    source = source_from_upload(upload_from_files({"a/suite.jsonl": JSONL.encode(), "b.md": b"here"}))
    assert source.folder == ""
    assert not source.environ
    for path in ("secret.md", "../secret.md", str(tmp_path / "secret.md"), "/etc/hostname", "a\0b"):
        assert source.find_file(path) is None
    assert (
        source.expand_glob("../../**/*") == source.expand_glob("/../*") == source.expand_glob("../../*") == []
    )
    assert source.expand_glob("../*") == ["../b.md"]


# --- saving ------------------------------------------------------------------------------------------------


def test_saving_numbers_versions_as_the_command_line_does(store: Store) -> None:
    other = JSONL + LINE % ("more", "b", "c")
    states = [
        (saved.suite.version, saved.state)
        for saved in (
            save(store, upload_from_text(JSONL), name="mine"),
            save(store, upload_from_text(JSONL), name="mine"),
            save(store, upload_from_text(other), name="mine"),
            save(store, upload_from_text(JSONL), name="mine"),
        )
    ]
    assert states == [("v1", "new"), ("v1", "same"), ("v2", "new"), ("v1", "earlier")]


def test_a_suite_may_be_called_as_a_built_in_one(store: Store) -> None:
    assert save(store, upload_from_text(JSONL), name="cheap").suite.title == "cheap v1"


@pytest.mark.parametrize("name", ["builtin:cheap", "a@v2", "x" * 201, "two\nlines"])
def test_names_that_cannot_be_had_are_refused(name: str, store: Store) -> None:
    with pytest.raises(UsageError):
        save(store, upload_from_text(JSONL), name=name)
    assert store.versions() == []


# --- several files -----------------------------------------------------------------------------------------


def test_a_folder_of_markdown_is_one_suite_and_is_called_as_it_is() -> None:
    files = {"mine/a.md": MARKDOWN.encode(), "mine/b/c.md": MARKDOWN.encode(), "mine/README.md": b"# About"}
    upload = upload_from_files(files)
    draft = check(upload)
    assert (upload.main, draft.errors) == (FOLDER_CHOICE, [])
    assert draft.suite is not None
    assert (draft.suite.name, draft.suite.dialect, draft.suite.case_count) == ("mine", "ai_tester", 2)


def test_a_file_that_the_suite_refers_to_is_no_other_suite() -> None:
    outer = "tests: file://cases.jsonl\n"
    inner = (
        '{"id": "a", "input": "hi", "criteria": "x", "assertions": [{"type": "contains", "value": "x"}]}\n'
    )
    upload = upload_from_files({"s/suite.eval.yaml": outer.encode(), "s/cases.jsonl": inner.encode()})
    assert (upload.main, upload.choices) == ("suite.eval.yaml", ())
    draft = check(upload)
    assert draft.errors == []
    assert draft.read == 1


def test_of_several_suites_the_user_chooses() -> None:
    upload = upload_from_files(
        {"a.jsonl": JSONL.encode(), "b.csv": CSV.encode(), "n/t.md": MARKDOWN.encode()}
    )
    assert upload.choices == ("a.jsonl", "b.csv", FOLDER_CHOICE)
    assert check(choose_suite(upload, "b.csv")).read == 2
    assert check(choose_suite(upload, FOLDER_CHOICE)).read == 1
    with pytest.raises(UsageError, match="not a suite of this upload"):
        choose_suite(upload, "../c.csv")
    with pytest.raises(UsageError, match="The upload contains no suite"):
        upload_from_files({"picture.png": b"\x89PNG"})
    with pytest.raises(UsageError, match="Save the sheet as CSV"):
        upload_from_files(
            {"[Content_Types].xml": b"", "xl/workbook.xml": b"", "xl/worksheets/sheet1.xml": b""}
        )


@given(
    st.text(max_size=40), st.lists(st.sampled_from(["**", "*", "a", "b.md", "..", "", "[a", "?"]), max_size=9)
)
def test_no_reference_and_no_glob_leaves_the_upload(reference: str, parts: list[str]) -> None:
    files = {"a/suite.jsonl": JSONL.encode(), "a/b.md": b"1", "c/a/b.md": b"2", ".x/b.md": b"3"}
    source = source_from_upload(upload_from_files(files))
    file = source.find_file(reference)
    assert file is None or file.data in files.values()
    for path in source.expand_glob("/".join(parts)):
        assert path.rstrip("/") in {
            "b.md",
            "suite.jsonl",
            "../c/a/b.md",
            "../c/a",
            "../c",
            "../.x/b.md",
            "../.x",
            ".",
            "../a",
        }


def test_globs_match_as_on_a_disk(tmp_path: Path) -> None:
    from proctor.services.suites.file_source import source_from_path as on_disk

    names = ["suite.jsonl", "a.md", "x/b.md", "x/y/c.md", "x/.z/d.md", ".git/e.md", "x/y/f.csv"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(JSONL, encoding="utf-8")
    disk = on_disk(tmp_path / "suite.jsonl")
    memory = source_from_upload(upload_from_files(dict.fromkeys(names, JSONL.encode()), main="suite.jsonl"))
    for pattern in (
        "*",
        "*.md",
        "**/*",
        "**/*.md",
        "x/*",
        "x/**/*.md",
        "x/",
        "x/*/",
        "**/*/",
        "a.md",
        "[ab].md",
        "?.md",
        "./x/../a.md",
    ):
        assert memory.expand_glob(pattern) == disk.expand_glob(pattern), pattern
    for path in ("a.md", "x/b.md", "nowhere.md", "x\\b.md", "/a.md"):
        disk_file, memory_file = disk.find_file(path), memory.find_file(path)
        assert (disk_file and disk_file.path) == (memory_file and memory_file.path), path


# --- deleting and restoring --------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
def test_having_back_what_was_deleted_leaves_all_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("undo")
    store = open_store(str(folder / "proctor.db"))
    trash = Trash(store, lambda: _closing(folder / "trash.db"))
    texts = [JSONL, JSONL + LINE % ("u", "x", "y"), JSONL + LINE % ("v", "x", "y")]
    for text in data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=5)):
        save(store, upload_from_text(text), name="mine")
    before = _list_suites(store)
    versions = [str(saved.suite.version) for saved in store.versions("mine")]
    doomed = data.draw(st.lists(st.sampled_from(versions), unique=True, min_size=1))
    for version in doomed:
        trash.discard("mine", version)
    assert {saved.suite.version for saved in store.versions("mine")} == set(versions) - set(doomed)
    for version in data.draw(st.permutations(doomed)):
        assert trash.restore("mine", version).version == version
    assert _list_suites(store) == before
    assert trash.list_deleted() == []
    store.close()


def test_what_was_saved_after_deleting_stays_the_current_version(tmp_path: Path, store: Store) -> None:
    trash = Trash(store, lambda: _closing(tmp_path / "trash.db"))
    save(store, upload_from_text(JSONL), name="mine")
    trash.discard("mine")
    assert [(version.name, version.version) for version in trash.list_deleted()] == [("mine", "v1")]
    save(store, upload_from_text(JSONL + LINE % ("u", "x", "y")), name="mine")
    trash.restore("mine", "v1")
    assert [(version.suite.version, version.current) for version in store.versions("mine")] == [
        ("v1", False),
        ("v2", True),
    ]
    with pytest.raises(UsageError, match="can no longer be restored"):
        trash.restore("mine", "v1")
    with pytest.raises(UsageError, match="no suite"):
        trash.discard("other")


def test_a_version_that_was_saved_again_is_left_as_it_is(tmp_path: Path, store: Store) -> None:
    trash = Trash(store, lambda: _closing(tmp_path / "trash.db"))
    save(store, upload_from_text(JSONL), name="mine")
    trash.discard("mine")
    tagged = JSONL.replace('"scorer"', '"tags": "new", "scorer"')
    save(store, upload_from_text(tagged), name="mine")
    before = _list_suites(store)
    trash.restore("mine", "v1")
    assert _list_suites(store) == before


def _closing(path: Path):  # type: ignore[no-untyped-def]
    from contextlib import closing

    return closing(open_store(str(path)))


def _list_suites(store: Store) -> list[object]:
    return [
        (version, [stored_case.case for stored_case in store.cases(version.suite.content)])
        for version in store.versions()
    ]


def test_an_upload_has_within_its_suites_folder_what_was_uploaded_there() -> None:
    source = source_from_upload(
        upload_from_files({"a/suite.jsonl": JSONL.encode(), "a/b.md": b"here", "c.md": b"above"})
    )
    file = source.find_within("b.md")
    assert file is not None
    assert (file.path, file.data) == ("b.md", b"here")
    for reference in ("../c.md", "/c.md", "c.md", "", "/etc/hostname"):
        assert source.find_within(reference) is None
