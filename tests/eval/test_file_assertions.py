"""Assertions about files: what holds, what fails and why, and that nothing outside the folder is read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import ASSERTION_KINDS, AssertionGrader, AssertionResult, GradeResult
from proctor.eval.sandbox import confined_files

GRADER = AssertionGrader()
SECRET = "kept outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    folder = tmp_path / "root"
    (folder / "logs").mkdir(parents=True)
    (folder / "note.txt").write_text("Buy milk\nand bread\n")
    (folder / "logs" / "run.log").write_text("step 1 ok\nstep 2 failed\n")
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "bad.bin").write_bytes(b"\xff\xfestart \xc3 end")
    (folder / "empty").touch()
    return folder


def check_file(
    root: Path, kind: str, path: Any = "note.txt", seeds: Any = None, **more: Any
) -> tuple[bool, str]:
    """Whether a single assertion passed, and its detail."""
    (result,) = GRADER.grade([{"kind": kind, "path": path, **more}], root, seed_files=seeds).assertions
    return result.passed, result.detail


PASSED = (True, "")


@pytest.mark.parametrize(
    ("kind", "path", "more", "expected"),
    [
        ("file_exists", "note.txt", {}, PASSED),
        ("file_exists", "logs", {}, PASSED),
        ("file_exists", "logs/../logs//./run.log", {}, PASSED),
        ("file_exists", "note.txt/x", {}, (False, "path missing")),
        ("file_exists", "no/such", {}, (False, "path missing")),
        ("file_not_exists", "no/such", {}, PASSED),
        ("file_not_exists", "logs", {}, (False, "file still present")),
        ("file_contents_contain", "note.txt", {"must_contain": ["milk", "bread"]}, PASSED),
        ("file_contents_contain", "note.txt", {"must_contain": "Buy milk"}, PASSED),
        ("file_contents_contain", "note.txt", {"must_contain": []}, PASSED),
        ("file_contents_contain", "note.txt", {"must_contain": ["Milk", "eggs", "bread"]},
         (False, "missing substrings: ['Milk', 'eggs']")),
        ("file_contents_contain", "logs", {"must_contain": ["x"]}, (False, "file missing")),
        ("file_contents_match_regex", "logs/run.log", {"regex": r"(?m)^step \d failed$"}, PASSED),
        ("file_contents_match_regex", "logs/run.log", {"regex": "step 3"}, (False, "regex not matched")),
        ("file_contents_match_regex", "nothing", {"regex": "x"}, (False, "file missing")),
        ("file_unchanged", "nothing", {"seeds": {"nothing": ""}}, (False, "file missing post-rollout")),
        ("file_unchanged", "empty", {"seeds": {"empty": ""}}, PASSED),
        ("file_unchanged", "empty", {"seeds": {"empty": "x"}}, (False, "contents diverged from seed")),
        ("file_unchanged", "note.txt", {"seeds": {"other": "x"}}, (True, "skipped (no seed content)")),
        ("file_moved", "note.txt", {}, (False, "unknown kind: file_moved")),
    ],
)  # fmt: skip
def test_each_kind(
    root: Path, kind: str, path: str, more: dict[str, Any], expected: tuple[bool, str]
) -> None:
    assert check_file(root, kind, path, **more) == expected


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        ({"kind": "file_exists"}, "missing key: path"),
        ({"kind": "file_exists", "path": ""}, "path is empty"),
        ({"kind": "file_not_exists", "path": None}, "path must be a text, not null"),
        ({"kind": "file_contents_contain", "path": "note.txt"}, "missing key: must_contain"),
        (
            {"kind": "file_contents_contain", "path": "note.txt", "must_contain": None},
            "list of texts, not null",
        ),
        ({"kind": "file_contents_contain", "path": "note.txt", "must_contain": [1]}, "a number is in it"),
        ({"kind": "file_contents_match_regex", "path": "note.txt"}, "missing key: regex"),
        ({"kind": "file_contents_match_regex", "path": "note.txt", "regex": 1}, "regex must be a text"),
        ({"kind": "file_contents_match_regex", "path": "note.txt", "regex": "("}, "error: missing ), unterm"),
        ({"kind": "file_exists", "path": "a\0b"}, "embedded null"),
        ({"kind": "file_exists", "path": "x" * 5000}, "read error: "),
        ({"kind": "file_exists", "path": "\ud800"}, "surrogates not allowed"),
        ({"kind": "file_contents_match_regex", "path": "note.txt", "regex": "[[a"}, "error: unterminated"),
        ({"kind": ["file_exists"], "path": "note.txt"}, "unknown kind: ['file_exists']"),
        ({"path": "note.txt"}, "unknown kind: "),
        ("file_exists", "the assertion must be an object, not a text"),
        (None, "the assertion must be an object, not null"),
    ],
)
def test_what_cannot_be_checked_is_a_failed_assertion_that_says_so(
    root: Path, assertion: Any, message: str
) -> None:
    result = GRADER.grade([assertion, {"kind": "file_exists", "path": "note.txt"}], root)
    assert message in result.assertions[0].detail
    assert (result.passed, result.n_passed, result.n_total) == (False, 1, 2)
    assert json.loads(json.dumps(result.to_dict()))["assertions"][0]["passed"] is False


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"task_id": "t"}, "missing key: verifiable_assertions"),
        ({"verifiable_assertions": None}, "verifiable_assertions must be a list, not null"),
        (None, "the task must be an object or a list, not null"),
        ("file_exists", "the task must be an object or a list, not a text"),
        (5, "the task must be an object or a list, not a number"),
    ],
)
def test_a_task_without_assertions_does_not_pass(root: Path, task: Any, message: str) -> None:
    result = GRADER.grade(task, root)
    assert not result.passed
    assert [assertion.detail for assertion in result.assertions] == [message]


def test_no_assertions_at_all_pass(root: Path) -> None:
    assert GRADER.grade([], root) == GradeResult("", True, 0, 0, [])


def test_a_task_names_itself_and_its_seeds(root: Path) -> None:
    task = {
        "task_id": 12,
        "verifiable_assertions": [
            {"kind": "file_unchanged", "path": "./note.txt"},
            {"kind": "file_unchanged", "path": "dos.txt"},
        ],
        "workspace_seed": {
            "files": [
                {"path": "note.txt", "kind": "text", "content": "Buy milk\nand bread\n"},
                {"path": "dos.txt", "kind": "binary", "content": "zzz"},
                {"path": "no-content", "kind": "text"},
                "not even an object",
            ]
        },
    }
    result = GRADER.grade(task, root)
    assert (result.task_id, result.passed, result.skipped) == ("12", True, 1)
    assert [assertion.skipped for assertion in result.assertions] == [False, True]
    assert GRADER.grade(task, root, task_id="mine").task_id == "mine"
    assert GRADER.grade(task | {"task_id": None}, root).task_id == ""
    assert GRADER.grade(task, root, seed_files={}).skipped == 2
    assert list(result.to_dict()) == ["task_id", "passed", "n_passed", "n_total", "assertions"]
    assert list(result.to_dict()["assertions"][0]) == ["kind", "path", "passed", "detail"]


# --- nothing outside ---------------------------------------------------------------------------------------

OUT = "path leads outside the root"


def links(root: Path) -> None:
    (root / "out").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    (root / "far").symlink_to(root.parent / "secret.txt")
    (root / "twice").symlink_to("logs/../out")
    (root / "logs" / "deep").symlink_to("../../secret.txt")
    (root / "nowhere-out").symlink_to("../no-such-file")


@pytest.mark.parametrize("path", [
    "../secret.txt", "logs/../../secret.txt", "out", "up/secret.txt", "far", "twice", "logs/deep",
    "../root/../secret.txt", "/secret.txt", "nowhere-out", "..", "up", "up/root/note.txt",
])  # fmt: skip
@pytest.mark.parametrize("kind", ASSERTION_KINDS)
def test_a_path_out_of_the_root_fails_whatever_is_there(root: Path, path: str, kind: str) -> None:
    links(root)
    more = {"must_contain": ["kept"], "regex": "kept", "seeds": {path: SECRET}}
    assert check_file(root, kind, path, **more) == (False, OUT)
    assert check_file(root, kind, path, must_contain=[], regex="") == (False, OUT)


def test_an_absolute_path_out_of_the_root_fails(root: Path) -> None:
    assert check_file(root, "file_exists", str(root.parent / "secret.txt")) == (False, OUT)
    assert check_file(root, "file_exists", str(root) + "x/note.txt") == (False, OUT)


def test_what_stays_inside_is_found_by_any_way(root: Path) -> None:
    (root / "in").symlink_to("logs/run.log")
    (root / "to-logs").symlink_to("logs")
    (root / "absolute").symlink_to(root / "logs")
    for path in ("in", "to-logs/run.log", "to-logs/../note.txt", "absolute/run.log", str(root / "note.txt")):
        assert check_file(root, "file_contents_match_regex", path, regex="step|milk") == PASSED


@pytest.mark.parametrize("target", ["nothing", "loop", "note.txt/x"])
def test_a_link_that_leads_nowhere_is_as_good_as_none(root: Path, target: str) -> None:
    (root / "loop").symlink_to(target)
    assert check_file(root, "file_not_exists", "loop") == PASSED
    assert check_file(root, "file_exists", "loop") == (False, "path missing")
    assert check_file(root, "file_contents_contain", "loop", must_contain=["x"]) == (False, "file missing")


@pytest.mark.slow
def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "run.log").write_text(SECRET)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "logs").rename(root / "hidden")
            (root / "logs").symlink_to(outside)
            (root / "logs").unlink()
            (root / "hidden").rename(root / "logs")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        results = {
            check_file(root, "file_contents_contain", "logs/run.log", must_contain=["kept"])
            for _ in range(1500)
        }
    finally:
        stop.set()
        thread.join()
    assert not any(passed for passed, _ in results)


def test_where_folders_cannot_be_walked_nothing_leads_out_either(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links(root)
    monkeypatch.setattr(confined_files, "_HAS_DIR_FD", False)
    for path in ("../secret.txt", "out", "up/secret.txt", "far", "/etc/passwd"):
        assert check_file(root, "file_contents_contain", path, must_contain=["kept"]) == (False, OUT)
    assert check_file(root, "file_contents_contain", "logs/../note.txt", must_contain=["milk"]) == PASSED
    assert check_file(root, "file_contents_contain", "logs", must_contain=["milk"]) == (False, "file missing")
    assert check_file(root, "file_not_exists", "nothing") == PASSED


def test_a_missing_root_is_an_empty_one(root: Path) -> None:
    missing_root = root / "gone"
    assert check_file(missing_root, "file_not_exists", "a/b") == PASSED
    assert check_file(missing_root, "file_exists", ".") == (False, "path missing")
    assert check_file(missing_root, "file_not_exists", "../note.txt") == (False, OUT)
    assert check_file(root / "note.txt", "file_not_exists", "x") == PASSED


@given(st.lists(st.sampled_from(["..", ".", "", "logs", "up", "out", "note.txt", "x"]), max_size=6))
def test_no_spelling_of_a_path_reaches_the_secret(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp() / "spelled"
    root = base / "root"
    if not base.exists():
        (root / "logs").mkdir(parents=True)
        (base / "note.txt").write_text(SECRET)
        (root / "up").symlink_to("..")
        (root / "out").symlink_to("../note.txt")
    assert not check_file(root, "file_contents_contain", "/".join(parts), must_contain=["kept"])[0]


# --- content -----------------------------------------------------------------------------------------------


def test_line_ends_do_not_decide_what_is_contained(root: Path) -> None:
    for text in ("one\ntwo\n", "one\r\ntwo\r\n", "one\r"):
        assert check_file(root, "file_contents_contain", "dos.txt", must_contain=[text]) == PASSED
    for regex in ("(?m)^one$", r"one\r\n", r"\Aone\ntwo\n\Z"):
        assert check_file(root, "file_contents_match_regex", "dos.txt", regex=regex) == PASSED
    assert not check_file(root, "file_contents_contain", "note.txt", must_contain=["milk\r\n"])[0]


@pytest.mark.parametrize(
    ("seed", "same"),
    [
        ("one\r\ntwo\r\n", True),
        (b"one\r\ntwo\r\n", True),
        ("one\ntwo\n", False),
        ("one\r\ntwo", False),
        ("\ufeffone\r\ntwo\r\n", False),
        ("\ud800", False),
    ],
)
def test_unchanged_means_the_same_bytes(root: Path, seed: str | bytes, same: bool) -> None:
    assert check_file(root, "file_unchanged", "dos.txt", {"dos.txt": seed})[0] is same


def test_bytes_that_are_no_text_are_searched_around(root: Path) -> None:
    assert check_file(root, "file_contents_contain", "bad.bin", must_contain=["start", "end"]) == PASSED
    assert check_file(root, "file_contents_match_regex", "bad.bin", regex="start . end") == PASSED
    assert check_file(root, "file_unchanged", "bad.bin", {"bad.bin": "��start � end"})[0] is False


@pytest.mark.parametrize("spelled", ["note.txt", "./note.txt", "logs/../note.txt", ".//note.txt"])
def test_seeds_are_found_by_any_spelling_of_their_path(root: Path, spelled: str) -> None:
    for path in ("note.txt", "./note.txt", "logs//../note.txt"):
        assert check_file(root, "file_unchanged", path, {spelled: "other"}) == (
            False,
            "contents diverged from seed",
        )


def test_a_seed_of_another_type_is_told(root: Path) -> None:
    assert check_file(root, "file_unchanged", seeds={"note.txt": 5}) == (
        False,
        "seed content must be a text, not a number",
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_or_device_is_never_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert check_file(root, "file_exists", "pipe") == PASSED
    assert check_file(root, "file_contents_contain", "pipe", must_contain=["x"]) == (
        False,
        "file missing: there is a FIFO",
    )
    detail = check_file(root, "file_unchanged", "pipe", {"pipe": ""})[1]
    assert detail == "file missing post-rollout: there is a FIFO"


def test_a_file_over_the_limit_is_told_and_not_read(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(10**12)
    message = "file too large: it has 1,000,000,000,000 bytes, and 16,777,216 are read at most"
    assert check_file(root, "file_contents_match_regex", "huge", regex="x") == (False, message)
    small = AssertionGrader(size_limit=19)
    assertion = {"kind": "file_contents_contain", "path": "note.txt", "must_contain": ["milk"]}
    assert small.grade([assertion], root).passed
    assert not AssertionGrader(size_limit=18).grade([assertion], root).passed


@pytest.mark.slow
def test_a_search_that_does_not_end_is_ended(root: Path) -> None:
    (root / "trap").write_text("a" * 40 + "!")
    passed, detail = check_file(root, "file_contents_match_regex", "trap", regex="(a|aa)+$")
    assert not passed
    assert "did not end within" in detail
    assert (
        "repeats too often"
        in check_file(root, "file_contents_match_regex", "trap", regex="(x{5000}){5000}")[1]
    )


# --- many --------------------------------------------------------------------------------------------------


def tasks(root: Path) -> list[tuple[list[dict[str, Any]], Path]]:
    return [
        (
            [
                {"kind": "file_exists", "path": "note.txt" if n % 3 else "gone"},
                {"kind": "file_unchanged", "path": "x"},
            ],
            root,
        )
        for n in range(9)
    ]


@pytest.mark.parametrize("workers", [1, 4])
def test_many_folders_are_graded_in_order(root: Path, workers: int) -> None:
    batch = GRADER.grade_many(tasks(root), workers=workers)
    assert [result.passed for result in batch.results] == [bool(n % 3) for n in range(9)]
    statistics = batch.statistics()
    assert list(statistics) == ["file_exists", "file_unchanged", "tasks"]
    assert {key: statistics["file_exists"][key] for key in ("passed", "skipped", "total")} == {
        "passed": 6, "skipped": 0, "total": 9,
    }  # fmt: skip
    assert statistics["file_unchanged"]["skipped"] == 9
    assert statistics["file_unchanged"]["share"] is statistics["file_unchanged"]["ci95"] is None
    low, high = statistics["tasks"]["ci95"]
    assert low < 0.66 < statistics["tasks"]["share"] < 0.67 < high
    labels = [bar["label"] for bar in batch.chart().spec["data"]["values"]]
    assert labels == ["file_exists (6 of 9)", "tasks (6 of 9)"]


def test_assertions_that_cannot_be_read_are_counted_apart_from_tasks(root: Path) -> None:
    broken: Any = "no object"
    batch = GRADER.grade_many([([broken, {"kind": "file_exists", "path": "none"}], root)])
    assert {name: row["total"] for name, row in batch.statistics().items()} == {
        "": 1,
        "file_exists": 1,
        "tasks": 1,
    }


def test_no_handle_stays_open(root: Path) -> None:
    links(root)
    count: Callable[[], int] = lambda: len(list(Path("/proc/self/fd").iterdir()))  # noqa: E731
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc here")
    before = count()
    for path in ("logs/../note.txt", "up/x", "logs/deep", "nothing", "a\0b", "logs/run.log/x"):
        for kind in ASSERTION_KINDS:
            check_file(root, kind, path, must_contain=["x"], regex="x", seeds={path: "x"})
    assert count() == before


def test_a_deep_path_does_not_use_up_the_handles_of_a_process(root: Path) -> None:
    (root / ("d/" * 250)).mkdir(parents=True)
    assert check_file(root, "file_exists", "d/" * 150) == PASSED
    assert "more than 200 folders deep" in check_file(root, "file_exists", "d/" * 250)[1]
    assert check_file(root, "file_exists", "d/../" * 250 + "note.txt") == PASSED


def test_the_kinds_are_named() -> None:
    assert GRADER.supported_kinds() == ASSERTION_KINDS
    assert " ".join(ASSERTION_KINDS) == (
        "file_exists file_not_exists file_contents_contain file_contents_match_regex file_unchanged"
    )
    with pytest.raises(AttributeError):
        AssertionResult("file_exists", "a", True).passed = False  # type: ignore[misc]
