"""`proctor suites`: saving, listing, showing, comparing, exporting and deleting versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

TEN: list[dict[str, Any]] = [
    {"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}", "scorer": "exact"} for n in range(10)
]


@pytest.fixture
def saved(proctor: Proctor, suite: Callable[..., str]) -> str:
    """The file of a suite with two versions: ten cases, of which v2 changes, drops, adds and renames one."""
    path = suite(
        *(row | {"tags": ["all"], "category": "even" if n % 2 == 0 else "odd"} for n, row in enumerate(TEN))
    )
    assert proctor("suites", "save", path).out == f"s v1: 10 cases from {path}\n"
    rows = [*TEN[1:], {"id": "t10", "input": "more", "expected": "more", "scorer": "exact"}]
    rows[0] = rows[0] | {"expected": "other"}
    rows[1] = rows[1] | {"id": "two"}
    suite(*(row | {"tags": ["all"]} for row in rows))
    assert proctor("suites", "save", path).out == f"s v2: 10 cases from {path}\n"
    return path


def _versions(proctor: Proctor, name: str = "s") -> list[str]:
    rows = proctor("suites", "versions", name, "--json").json["versions"]
    return [row["version"] + "*" * row["current"] for row in rows]


# --- saving ------------------------------------------------------------------------------------------------


def test_saving_again_says_which_version_it_is(
    proctor: Proctor, saved: str, suite: Callable[..., str]
) -> None:
    assert proctor("suites", "save", saved).out == f"s v2, unchanged: 10 cases from {saved}\n"
    suite(*TEN[:9])
    assert proctor("suites", "save", saved).out == f"s v3: 9 cases from {saved}\n"
    suite(*(row | {"tags": ["new"]} for row in TEN[:9]))
    result = proctor("suites", "save", saved).out
    assert result == (
        f"s v3, unchanged except for tags, metadata, order, holdout or prompts: 9 cases from {saved}\n"
    )
    assert proctor("suites", "show", "s", "--json").json["tags"] == {"new": 9}
    suite({**TEN[0], "id": "only"})
    assert proctor("suites", "save", saved, "--name", "t").out == f"t v1: 1 case from {saved}\n"


def test_a_reverted_file_is_its_old_version_again(proctor: Proctor, suite: Callable[..., str]) -> None:
    for ids in ("a", "b", "a"):
        result = proctor("suites", "save", suite((ids, "?", "x")))
    assert result.out == "s v1, the same as this earlier version: 1 case from s.jsonl\n"
    assert _versions(proctor) == ["v1*", "v2"]


def test_a_run_saves_too_and_says_its_version(
    proctor: Proctor, saved: str, suite: Callable[..., str]
) -> None:
    suite(*TEN[:3])
    assert proctor("run", saved, "--target", "echo", "--json").run["suite_version"] == "v3"
    assert _versions(proctor) == ["v1", "v2", "v3*"]


@pytest.mark.parametrize("version", ["v1", "sha256"])
def test_a_version_can_be_run_without_its_file(
    proctor: Proctor, saved: str, folder: Path, version: str
) -> None:
    digest = proctor("suites", "versions", "s", "--json").json["versions"][0]["suite_digest"]
    (folder / saved).unlink()
    run = proctor(
        "run", f"s@{digest[:20] if version == 'sha256' else version}", "--target", "echo", "--json"
    ).run
    assert (run["suite_version"], run["total"], run["passed"]) == ("v1", 10, 10)


def test_what_is_wrong_in_a_file_is_told_and_nothing_of_it_saved(proctor: Proctor, folder: Path) -> None:
    (folder / "bad.jsonl").write_text('{"id": "a", "input": "?", "expected": "x"}\n{"id": "b"}\n', "utf-8")
    result = proctor("suites", "save", "bad.jsonl")
    assert result.code == 4
    assert "bad.jsonl:2: error: " in result.err
    assert proctor("suites", "list").out == "There are no saved suites.\n"


def test_of_several_files_each_that_is_right_is_saved(
    proctor: Proctor, folder: Path, suite: Callable[..., str]
) -> None:
    (folder / "bad.jsonl").write_text('{"id": "b"}\n', "utf-8")
    good = suite(("a", "?", "x"), name="good.jsonl")
    result = proctor("suites", "save", "bad.jsonl", good)
    assert (result.code, result.out) == (4, "good v1: 1 case from good.jsonl\n")
    assert "bad.jsonl:1: error" in result.err


def test_wrong_usage_is_4_with_a_sentence(proctor: Proctor, saved: str) -> None:
    errors = {
        "save nobody": "no suite 'nobody'",
        "save s.jsonl s.jsonl --name x": "one by one",
        "save s.jsonl --name builtin:cheap": "built-in",
        "save s.jsonl --dialect nobody": "'nobody'",
        "versions nobody": "no suite 'nobody' in the store",
        "show nobody": "no suite 'nobody' in the store",
        "show s@v9": "has no version 'v9'. It has v1 (",
        "export t": "Expected one of: s",
        "delete nobody --yes": "no suite 'nobody'",
        "delete s@v1": "Add --yes",
        "diff s nobody": "no suite 'nobody'",
        "diff nobody": "no suite 'nobody'",
        "diff s v1 v9": "no version 'v9'",
        "diff s v1 s.jsonl": "'s.jsonl' is not a version",
        "diff a b c d": "two suites",
    }
    for words, why in errors.items():
        result = proctor("suites", *words.split())
        assert (result.code, result.out, why in result.err) == (4, "", True), (words, result)
    assert _versions(proctor) == ["v1", "v2*"]


@pytest.mark.parametrize(
    "words",
    [("list",), ("versions", "s"), ("show", "s"), ("export", "s"), ("delete", "s", "-y"), ("diff", "s")],
)
def test_without_a_store_each_command_says_so_and_creates_none(
    proctor: Proctor, folder: Path, words: tuple[str, ...]
) -> None:
    for flag in ((), ("--store", "nowhere.db")):
        result = proctor("suites", *words, *flag)
        assert (result.code, "There is no store" in result.err) == (4, True)
        assert list(folder.iterdir()) == []


# --- looking -----------------------------------------------------------------------------------------------


def test_a_list_has_a_line_a_suite(proctor: Proctor, saved: str, suite: Callable[..., str]) -> None:
    proctor("suites", "save", suite(("a", "?", "x"), name="a b.jsonl"))
    proctor("run", saved, "--target", "echo", "--quiet")
    lines = proctor("suites", "list").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["suite", "a b  ".strip(), "s    ".strip()]
    assert lines[2].split()[1:5] == ["v2", "2", "10", "1"]
    suites = proctor("suites", "list", "--json").json["suites"]
    assert [(entry["suite"], [row["runs"] for row in entry["versions"]]) for entry in suites] == [
        ("a b", [0]),
        ("s", [0, 1]),
    ]


def test_versions_have_a_line_each_oldest_first(proctor: Proctor, saved: str) -> None:
    lines = proctor("suites", "versions", "s").out.splitlines()
    assert [line.split()[0] for line in lines] == ["version", "v1", "v2"]
    assert [line.endswith("current") for line in lines] == [False, False, True]
    rows = proctor("suites", "versions", "s", "--json").json
    assert rows["suite"] == "s"
    assert [
        row["suite_digest"][:19] in line for row, line in zip(rows["versions"], lines[1:], strict=True)
    ] == [True, True]
    assert {key: rows["versions"][0][key] for key in ("cases", "runs", "dialect")} == {
        "cases": 10,
        "runs": 0,
        "dialect": "meridian",
    }


def test_a_version_is_shown_with_its_cases_by_category_tag_and_split(proctor: Proctor, saved: str) -> None:
    out = proctor("suites", "show", "s@v1").out
    assert out.splitlines()[0] == "s v1"
    assert proctor("suites", "show", "s").out.splitlines()[0] == "s v2, current"
    for words in ("10: 8 dev + 2 holdout", "even 5 · odd 5", "all 10", "meridian", "sha256:"):
        assert words in out
    report = proctor("suites", "show", "s@v1", "--json").json
    assert report["splits"] == {"dev": 8, "holdout": 2}
    assert (report["categories"], report["tags"]) == ({"even": 5, "odd": 5}, {"all": 10})
    assert (report["runs"], report["looks"], "case_list" in report) == ([], [], False)


def test_the_cases_of_a_version_can_be_shown(proctor: Proctor, saved: str) -> None:
    lines = proctor("suites", "show", "s@v1", "--cases").out.splitlines()[-10:]
    assert [line.split()[0] for line in lines] == [f"t{n}" for n in range(10)]
    assert sum("· holdout ·" in line for line in lines) == 2
    assert lines[3].endswith("· odd · all · exact · say 3")
    rows = proctor("suites", "show", "s@v1", "--cases", "--json").json["case_list"]
    assert [row["id"] for row in rows] == [f"t{n}" for n in range(10)]
    assert rows[3]["graders"] == ["exact"]
    assert rows[3]["sent"].startswith("sha256:")
    assert rows[3]["judged"].startswith("sha256:")


@pytest.mark.slow
def test_a_version_tells_its_runs_and_looks_and_no_other_versions(proctor: Proctor, saved: str) -> None:
    ids = [proctor("run", saved, "--target", "echo", "--json").run["run"] for _ in range(7)]
    report = proctor("suites", "show", "s", "--json").json
    assert [run["run"] for run in report["runs"]] == ids[::-1]
    assert report["runs"][0]["target"] == "echo"
    out = proctor("suites", "show", "s").out
    assert [f"{run_id}  finished  on echo" in out for run_id in ids] == [False] * 2 + [True] * 5
    assert "and 2 more: proctor runs list --suite s\n" in out
    assert proctor("suites", "show", "s@v1", "--json").json["runs"] == []


# --- comparing ---------------------------------------------------------------------------------------------

_LINES = """\
s v1 → s v2: 1 added, 1 removed, 1 renamed, 9 changed

- t0
+ t10
t2 is now two
t1
  expected
    - say 1
    + other
  assertions[0].params.value
    - say 1
    + other
"""


def test_two_versions_are_compared_by_any_words_for_them(proctor: Proctor, saved: str) -> None:
    first, *others = (
        proctor("suites", "diff", *words, "--json").json
        for words in (("s",), ("s", "v1"), ("s", "v1", "v2"), ("s@v1", "s@v2"), ("s@v1", "s.jsonl"))
    )
    assert [{**other, "new": first["new"]} for other in others] == [first] * 4
    comparison = first
    assert (comparison["added"], comparison["removed"], comparison["renamed"]) == (
        ["t10"],
        ["t0"],
        [{"old": "t2", "new": "two"}],
    )
    assert [change["case"] for change in comparison["changed"]] == [
        "t1",
        "two",
        *(f"t{n}" for n in range(3, 10)),
    ]
    assert comparison["changed"][0]["fields"][0] == {"field": "expected", "old": "say 1", "new": "other"}
    assert comparison["changed"][2]["fields"] == [{"field": "category", "old": "odd", "new": None}]
    assert (comparison["same"], comparison["moved"], comparison["header"]) == (0, 0, [])
    assert (comparison["old"]["version"], comparison["old"]["cases"]) == ("v1", 10)


def test_a_comparison_has_old_and_new_of_every_field(proctor: Proctor, saved: str) -> None:
    out = proctor("suites", "diff", "s").out
    assert out.startswith(_LINES)
    backwards = proctor("suites", "diff", "s", "v2", "v1").out
    assert backwards.startswith(
        "s v2 → s v1: 1 added, 1 removed, 1 renamed, 9 changed\n\n- t10\n+ t0\ntwo is now t2\n"
    )


def test_cases_of_a_markdown_file_with_another_name_are_renamed_and_not_changed(
    proctor: Proctor, folder: Path
) -> None:
    text = "---\nreplacements: {n: [4, 12]}\n---\n\n# 👤\n\nSoup for `{{n}}`?\n\n---\n\nYes.\n"
    (folder / "suite" / "hot").mkdir(parents=True)
    (folder / "suite" / "soup.md").write_text(text, encoding="utf-8")
    proctor("suites", "save", "suite")
    (folder / "suite" / "soup.md").rename(folder / "suite" / "hot" / "stew.md")
    assert proctor("suites", "diff", "suite@v1", "suite").out.splitlines() == [
        "suite v1 → suite: 2 renamed",
        "",
        "soup[n=4] is now hot/stew[n=4]",
        "soup[n=12] is now hot/stew[n=12]",
    ]


def test_the_exit_code_tells_of_differences_only_when_it_is_asked_to(proctor: Proctor, saved: str) -> None:
    for words, code in ((("s", "v1"), 1), (("s", "v2"), 0), (("s@v1", "s.jsonl"), 1)):
        result = proctor("suites", "diff", *words, "--exit-code", "--json")
        assert (result.code, result.json["exit_code"]) == (code, code)
        result = proctor("suites", "diff", *words, "--json")
        assert (result.code, result.json["exit_code"]) == (0, 0)


def test_longer_texts_are_compared_line_by_line(proctor: Proctor, suite: Callable[..., str]) -> None:
    for middle in ("two", "zwei"):
        suite(("a", f"one\n{middle}\nthree\nfour", "x"))
        proctor("suites", "save", "s.jsonl")
    lines = proctor("suites", "diff", "s").out.splitlines()
    assert [line.strip() for line in lines if line.strip().startswith(("- ", "+ "))] == ["- two", "+ zwei"]


def test_equal_versions_have_no_differences(proctor: Proctor, saved: str, suite: Callable[..., str]) -> None:
    out = proctor("suites", "diff", "s", "s.jsonl").out
    assert out == "s v2 → s.jsonl: 10 the same\n"
    suite(("a", "?", "x"), name="t.jsonl")
    proctor("suites", "save", "t.jsonl")
    result = proctor("suites", "diff", "t")
    assert (result.code, "only one version, v1" in result.err) == (4, True)


def test_files_can_be_compared_without_a_store(
    proctor: Proctor, suite: Callable[..., str], folder: Path
) -> None:
    suite(("a", "?", "x"), name="old.jsonl")
    suite(("a", "?", "y"), name="new.jsonl")
    comparison = proctor("suites", "diff", "old.jsonl", "new.jsonl", "--json").json
    assert [change["case"] for change in comparison["changed"]] == ["a"]
    assert comparison["header"] == [{"field": "name", "old": "old", "new": "new"}]
    assert not (folder / ".proctor").exists()


# --- exporting and deleting --------------------------------------------------------------------------------


def test_what_is_exported_and_saved_again_is_the_same_version(
    proctor: Proctor, saved: str, folder: Path
) -> None:
    assert proctor("suites", "export", "s@v1", "-o", "old.jsonl").code == 0
    assert proctor("suites", "save", "old.jsonl").out.startswith(
        "s v1, the same as this earlier version: 10 cases"
    )
    assert json.loads((folder / "old.jsonl").read_text("utf-8").splitlines()[0])["proctor"] == 1
    assert _versions(proctor) == ["v1*", "v2"]


def test_an_export_without_a_file_is_printed(proctor: Proctor, saved: str) -> None:
    lines = [
        json.loads(line) for line in proctor("suites", "export", "s", "--to", "meridian").out.splitlines()
    ]
    assert [line["id"] for line in lines if "id" in line] == ["t1", "two", *(f"t{n}" for n in range(3, 11))]


def test_an_export_replaces_no_file_unasked(proctor: Proctor, saved: str, folder: Path) -> None:
    before = (folder / saved).read_bytes()
    result = proctor("suites", "export", "s@v1", "-o", saved)
    assert (result.code, (folder / saved).read_bytes()) == (4, before)
    assert proctor("suites", "export", "s@v1", "-o", saved, "--force").code == 0
    assert proctor("suites", "save", saved).out.startswith("s v1, the same as this earlier version")


def test_a_deleted_version_is_gone_and_its_number_with_it(
    proctor: Proctor, saved: str, suite: Callable[..., str]
) -> None:
    assert proctor("suites", "delete", "s@v2", "--yes").err == "Deleted s v2.\n"
    assert _versions(proctor) == ["v1*"]
    suite(*TEN[:2])
    assert proctor("suites", "save", saved).out.startswith("s v3: 2 cases")
    assert proctor("suites", "delete", "s", "-y").err == "Deleted s v1, s v3.\n"
    assert proctor("suites", "list").out == "There are no saved suites.\n"


def test_a_version_with_runs_is_not_deleted_nor_is_any_with_it(proctor: Proctor, saved: str) -> None:
    run_id = proctor("run", saved, "--target", "echo", "--json").run["run"]
    for word in ("s", "s@v2"):
        result = proctor("suites", "delete", word, "--yes")
        assert (result.code, "v2 has 1 run" in result.err) == (4, True)
    assert _versions(proctor) == ["v1", "v2*"]
    proctor("runs", "delete", run_id, "--yes")
    assert proctor("suites", "delete", "s", "--yes").code == 0


def test_no_name_or_case_can_move_the_terminals_cursor(proctor: Proctor, suite: Callable[..., str]) -> None:
    for answer in ("x", "y"):
        suite(("a\x1b[2J", "\x1b[31mred\nline", answer), name="s.jsonl")
        proctor("suites", "save", "s.jsonl")
    for words in (("list",), ("show", "s", "--cases"), ("diff", "s"), ("versions", "s")):
        assert "\x1b" not in proctor("suites", *words).out
    suite({"suite_name": "\x1b[31mred\nname"}, ("a", "q", "x"), name="s.jsonl")
    assert proctor("suites", "save", "s.jsonl").out.startswith(r"\x1b[31mred name v1: 1 case")
    proctor("run", "s.jsonl", "--target", "echo", "-q")
    assert "[31mred name v1 on echo\n" in proctor("runs", "list").out.replace("\x1b", "?")


def test_a_saved_suite_has_the_hash_of_its_file(proctor: Any, folder: Path) -> None:
    row = {"id": "a", "input": "x", "expected": "x"}
    (folder / "s.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert proctor("suites", "save", "s.jsonl").code == 0
    of_file = proctor("hash", "s.jsonl").out.split()[0]
    (folder / "s.jsonl").unlink()
    assert proctor("hash", "s", "s@v1").out == f"{of_file}  s\n{of_file}  s@v1\n"
    assert "no version 'v2'" in proctor("hash", "s@v2").err
    assert "no suite 'nothing'" in proctor("hash", "nothing").err
