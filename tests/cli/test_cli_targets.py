"""`proctor targets` with a targets file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Proctor

FILE = """targets:
  - {name: first, provider: mock, response: ready}
  - {name: second, provider: cli, command: cat, env: {A_TOKEN: "${{ MY_TOKEN }}"}}
  - {name: third, use_target: first, provider_batching: true}
"""


@pytest.fixture
def targets(folder: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        (folder / "targets.yaml").write_text(text, encoding="utf-8")

    write(FILE)
    return write


def test_targets_of_the_file_are_listed_with_their_variables(
    proctor: Proctor, targets: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = proctor("targets", "list")
    lines = result.out.splitlines()
    assert any(line.split() == ["first", "mock", "ready"] for line in lines)
    assert any(line.split() == ["third", "→", "first"] for line in lines)
    assert "(MY_TOKEN not set)" in result.out
    assert "targets.yaml:4: warning: " in result.out
    monkeypatch.setenv("MY_TOKEN", "tok-secret")
    result = proctor("targets", "list")
    assert "(MY_TOKEN set)" in result.out
    assert "tok-secret" not in result.out


def test_checking_without_a_name_asks_all_of_the_file(
    proctor: Proctor, targets: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = proctor("targets", "check")
    assert result.code == 3
    assert [line.split(": ")[0] for line in result.out.splitlines()] == ["first", "second", "third"]
    assert "MY_TOKEN" in result.out.splitlines()[1]
    monkeypatch.setenv("MY_TOKEN", "tok-secret")
    result = proctor("targets", "check")
    assert result.code == 0
    assert "first: answered 'ready' in" in result.out
    assert "tok-secret" not in result.out


def test_names_and_words_can_be_checked_together(proctor: Proctor, targets: object) -> None:
    result = proctor("targets", "check", "third", "echo")
    assert result.code == 0
    assert [line.split(": ")[0] for line in result.out.splitlines()] == ["third", "echo"]
    assert proctor("targets", "check", "fourth").code == 4


def test_without_a_file_a_name_is_needed(proctor: Proctor) -> None:
    result = proctor("targets", "check")
    assert result.code == 4
    assert "targets.yaml" in result.err


def test_a_run_without_a_target_lists_the_names_of_the_file(
    proctor: Proctor, targets: Callable[[str], None], half: str
) -> None:
    targets("targets: [{name: near, provider: mock}, {name: far, provider: mock}]")
    result = proctor("run", half)
    assert result.code == 4
    assert "`default` in targets.yaml. The file has: near, far." in result.err


@pytest.mark.slow
def test_a_line_finds_what_lies_beside_its_own_targets_file_however_it_is_asked(
    proctor: Proctor, folder: Path
) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "word").write_text(name, encoding="utf-8")
        (folder / name / "targets.yaml").write_text(
            'targets: [{name: default, provider: cli, command: cat "$PROCTOR_TARGETS_FOLDER/word"}]',
            encoding="utf-8",
        )
        (folder / name / f"{name}.eval.yaml").write_text(
            f"tests: [{{id: a, input: x, criteria: c, assertions: [{{type: equals, value: {name}}}]}}]",
            encoding="utf-8",
        )
    result = proctor("run", "one/one.eval.yaml", "two/two.eval.yaml", "--json")
    assert [run["passed"] for run in result.json["runs"]] == [1, 1]
    (folder / "two" / "word").unlink()
    failed = proctor("run", "two/two.eval.yaml", "--json").run
    assert failed["errors"] == 1
    (folder / "two" / "word").write_text("two", encoding="utf-8")
    assert proctor("run", f"--retry-errors={failed['run']}").code == 0


@pytest.mark.slow
def test_an_entry_that_is_wrong_is_told_with_its_line(
    proctor: Proctor, targets: Callable[[str], None]
) -> None:
    targets("targets:\n  - name: x\n    provider: nobody\n  - {name: y, provider: mock, response: ready}\n")
    result = proctor("targets", "list")
    wrong = "targets.yaml:3: error: Target 'x': `provider` is 'nobody'."
    assert result.code == 4
    assert any(line.split() == ["y", "mock", "ready"] for line in result.out.splitlines())
    assert wrong in result.err
    result = proctor("targets", "check")
    assert result.code == 3
    assert f"x: no answer: {wrong}" in result.out
    assert "y: answered 'ready'" in result.out
    assert proctor("targets", "check", "y", "echo").code == 0


def test_a_file_that_is_no_targets_file_is_told_with_its_line(
    proctor: Proctor, targets: Callable[[str], None]
) -> None:
    targets("target:\n  - {name: x, provider: mock}\n")
    for words in (("list",), ("check",), ("check", "echo")):
        result = proctor("targets", *words)
        assert result.code == 4
        assert "targets.yaml:1: error: The file needs a list `targets`" in result.err


PLAIN = """tests:
  - {id: a, criteria: c, input: x, assertions: [{type: contains, value: "43"}]}
"""
JUDGED = "tests: [{id: a, criteria: c, input: x}]"
UNKNOWN_GRADER_TARGET = (
    "targets.yaml:4: error: Target 'self': `grader_target` names 'nobody', which is not a target."
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "suite", "code", "message"),
    [
        ("mock:43", PLAIN, 0, ""),
        ("good", PLAIN, 0, ""),
        ("self", PLAIN, 0, ""),
        ("keyed", PLAIN, 0, ""),
        ("bad", PLAIN, 4, "targets.yaml:3: error: Target 'bad': `provider` is 'opena'."),
        ("self", JUDGED, 4, UNKNOWN_GRADER_TARGET),
        ("keyed", JUDGED, 4, "targets.yaml:6: error: Target 'needy': `api_key` uses the variable NOT_SET"),
        ("good --judge bad", JUDGED, 4, "targets.yaml:3: error: Target 'bad'"),
        ("self --judge mock:1", JUDGED, 3, ""),
    ],
)
def test_an_entry_that_is_wrong_stops_a_run_that_needs_it_and_no_other(
    proctor: Proctor,
    targets: Callable[[str], None],
    folder: Path,
    words: str,
    suite: str,
    code: int,
    message: str,
) -> None:
    targets(
        "targets:\n"
        "  - {name: good, provider: mock, response: '43'}\n"
        "  - {name: bad, provider: opena, model: m}\n"
        "  - {name: self, provider: mock, response: '43', grader_target: nobody}\n"
        "  - {name: keyed, provider: mock, response: '43', grader_target: needy}\n"
        "  - {name: needy, provider: openai, model: m, api_key: '${{ NOT_SET }}'}\n"
    )
    (folder / "s.eval.yaml").write_text(suite, encoding="utf-8")
    result = proctor("run", "s.eval.yaml", "--target", *words.split(), "--quiet")
    assert (result.code, result.err.count(": error: ")) == (code, 1 if message else 0)
    assert message in result.err


def test_a_check_of_a_recording_or_a_script_uses_its_own_questions(proctor: Proctor, folder: Path) -> None:
    rows = [{"case_id": "a", "repeat": 1, "output": "late"}, {"case_id": "b", "output": "early"}]
    (folder / "r.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "s.jsonl").write_text('{"t-*": "scripted"}', encoding="utf-8")
    result = proctor("targets", "check", "replay:r.jsonl", "scripted:s.jsonl")
    assert result.code == 0
    assert "replay:r.jsonl: answered 'early'" in result.out
    assert "scripted:s.jsonl: answered 'scripted'" in result.out
    (folder / "r.jsonl").write_text("", encoding="utf-8")
    (folder / "s.jsonl").write_text("no json", encoding="utf-8")
    assert proctor("targets", "check", "replay:r.jsonl", "scripted:s.jsonl", "replay:none").code == 3


def test_the_file_of_a_new_project_can_be_read(proctor: Proctor, folder: Path) -> None:
    assert proctor("init").code == 0
    assert "default                 local" in proctor("targets", "list").out
    text = (folder / "targets.yaml").read_text(encoding="utf-8")
    lines = [line.replace("  # - ", "  - ").replace("  #   ", "    ") for line in text.splitlines()]
    example = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    (folder / "targets.yaml").write_text(example, encoding="utf-8")
    out = proctor("targets", "list").out
    for line in (
        "my-server               openai my-model@",
        "production              openai gpt-5.2",
        "agent                   cli my-agent",
    ):
        assert line in out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the line is one of a POSIX shell")
def test_one_process_answers_all_tests_of_a_run(proctor: Proctor, targets: Callable[[str], None]) -> None:
    targets("""targets:
  - name: batch
    provider: cli
    provider_batching: true
    command: "echo run >> runs; cat answers.jsonl > {OUTPUT_FILE}"
""")
    answers = ({"id": "three", "text": "tres"}, {"id": "one", "text": "uno"})
    Path("answers.jsonl").write_text(
        "".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8"
    )
    tests = "".join(
        f"  - {{id: {id_}, input: Count., assertions: [{{type: equals, value: {word}}}]}}\n"
        for id_, word in (("one", "uno"), ("two", "dos"), ("three", "tres"))
    )
    Path("count.eval.yaml").write_text(f"tests:\n{tests}", encoding="utf-8")
    result = proctor("run", "count.eval.yaml", "--target", "batch", "--json")
    assert (result.code, result.run["passed"], result.run["errors"]) == (3, 2, 1)
    assert "no record with the id 'two'" in proctor("runs", "show", "last", "--case", "two").out
    assert Path("runs").read_text(encoding="utf-8") == "run\n"
