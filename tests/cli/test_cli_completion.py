"""Shell completion: by click's protocol in this process and as programs, and in a real bash."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from proctor.cli.completion.shells import complete
from proctor.stores.sqlite.migrations import MIGRATIONS
from support.cli import PYTHON, Proctor
from support.sources import PACKAGE
from support.waiting import PATIENCE_S, wait_until

Complete = Callable[..., list[str]]

SUITE = (
    '{"id": "a", "category": "reasoning", "input": "four", "ideal": "four", '
    '"assertion": {"type": "contains"}, "metadata": {"difficulty": "easy", "tokens_est": 1}}\n'
)


@pytest.fixture(name="candidates")
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Returns the lines that a shell gets for a command line."""

    def run(line: str, shell: str = "bash", *, word: str | None = None) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        cword = str(line.count(" ")) if shell != "fish" else (word or "")
        monkeypatch.setenv("COMP_CWORD", cword)
        capsys.readouterr()
        code = complete(f"{shell}_complete")
        out, err = capsys.readouterr()
        assert err == ""
        assert code == 0 or out == ""
        return out.splitlines()

    return run


@pytest.fixture
def project(folder: Path, proctor: Proctor) -> Path:
    """A project with suites, targets and two runs, of which one has a tag."""
    (folder / "suites").mkdir()
    (folder / "suites/support.jsonl").write_text(SUITE, encoding="utf-8")
    (folder / "support data.jsonl").write_text(SUITE, encoding="utf-8")
    (folder / ".hidden.jsonl").write_text(SUITE, encoding="utf-8")
    (folder / "targets.yaml").write_text("targets:\n  - name: parrot\n    provider: echo\n", encoding="utf-8")
    for suite in ("suites/support.jsonl", "builtin:cheap"):
        proctor("run", suite, "--target", "echo", "--no-holdout", "--quiet")
    proctor("runs", "tag", "last", "nightly")
    return folder


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- what is offered ---------------------------------------------------------------------------------------


def test_commands_and_flags_are_offered(candidates: Complete) -> None:
    assert candidates("proctor re") == ["regrade", "replay"]
    assert candidates("proctor runs ex") == ["export"]
    assert "--min-pass-rate" in candidates("proctor run cheap --min")
    assert candidates("proctor run cheap --judge-rule ") == ["majority", "all", "any"]


def test_suites_are_built_in_in_their_folder_saved_or_files(project: Path, candidates: Complete) -> None:
    words = candidates("proctor run ")
    assert {"cheap", "support", "builtin:cheap", "suites/", "support\\ data.jsonl"} <= set(words)
    assert ".hidden.jsonl" not in words
    assert candidates("proctor run suites/") == ["suites/support.jsonl"]
    assert candidates("proctor run .h") == [".hidden.jsonl"]
    assert candidates("proctor run cheap --saved sup") == ["support"]
    assert candidates("proctor suites show support@") == ["support@v1"]


def test_targets_are_names_kinds_and_models(project: Path, candidates: Complete) -> None:
    words = candidates("proctor run cheap --target ")
    assert words[0] == "parrot"
    assert {"openai:", "ollama:", "echo", "local", "sonnet"} <= set(words)
    assert candidates("proctor run cheap --judge par") == ["parrot"]
    assert candidates("proctor run cheap -t gpt-5.") == candidates("proctor run cheap -t openai:gpt-5.")
    assert candidates("proctor targets check par") == ["parrot"]


def test_runs_are_the_newest_tags_and_ids(project: Path, candidates: Complete, proctor: Proctor) -> None:
    ids = [row["run"] for row in proctor("runs", "list", "--json").json["runs"]]
    assert candidates("proctor runs show ") == ["last", "nightly", *ids]
    assert candidates("proctor run --resume=") == ["last", "nightly", *ids]
    assert candidates(f"proctor compare last {ids[1][:-1]}") == [ids[1]]
    assert candidates("proctor runs list --tag ") == ["nightly"]
    (line,) = [line for line in candidates("proctor runs show ", "fish") if ids[1] in line]
    assert line == f"plain,{ids[1]}\tsupport on echo (finished)"


def test_prompts_are_files_and_those_of_runs(folder: Path, candidates: Complete, proctor: Proctor) -> None:
    (folder / "s.jsonl").write_text(SUITE, encoding="utf-8")
    (folder / "terse.txt").write_text("{{ input }}", encoding="utf-8")
    proctor("run", "s.jsonl", "--target", "echo", "--prompt", "terse.txt", "--quiet")
    assert candidates("proctor run s.jsonl --prompt ter", "fish", word="ter") == [
        "plain,terse\tprompt of a run",
        "file,ter",
    ]
    assert candidates("proctor runs list --prompt ") == ["terse"]


def test_a_flag_that_takes_its_value_with_an_equals_sign_does_not_take_the_next_word(
    project: Path, candidates: Complete
) -> None:
    assert "support" in candidates("proctor run --resume sup")
    assert candidates("proctor run cheap --keep-workspaces=") == ["none", "failed", "all"]


@pytest.mark.parametrize("suite", ["cheap", "builtin:cheap", "--saved builtin:cheap", "--suite cheap"])
def test_tags_and_categories_are_those_of_the_suite(project: Path, candidates: Complete, suite: str) -> None:
    assert {"literature", "calendar"} <= set(candidates(f"proctor run {suite} --tag "))
    assert candidates(f"proctor run {suite} --category r") == ["reasoning"]
    assert candidates(f"proctor run {suite} --all-tag geography,l") == ["geography,literature"]


def test_tags_of_a_file_that_was_never_run_are_offered(folder: Path, candidates: Complete) -> None:
    shutil.copy(PACKAGE / "suites/v1.0/cheap.jsonl", "mine.jsonl")
    assert candidates("proctor run mine.jsonl --tag lit") == ["literature"]
    assert [path.name for path in folder.iterdir()] == ["mine.jsonl"]


def test_a_large_suite_is_not_read_for_its_tags(folder: Path, candidates: Complete) -> None:
    (folder / "large.jsonl").write_text(SUITE * 3_000, encoding="utf-8")
    assert candidates("proctor run large.jsonl --category ") == []


def test_the_store_is_the_one_that_the_flag_names(
    project: Path, candidates: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert candidates("proctor runs show --store none.db ") == []
    (project / "deep").mkdir()
    monkeypatch.chdir("deep")
    assert candidates("proctor runs show nig") == ["nightly"]
    assert candidates("proctor runs show --store ../.proctor/proctor.db nig") == ["nightly"]


# --- how each shell gets it --------------------------------------------------------------------------------


def test_bash_gets_what_follows_its_word_breaks(project: Path, candidates: Complete) -> None:
    assert candidates("proctor run cheap --target=openai:gpt-5.2") == ["gpt-5.2"]
    assert candidates("proctor run cheap --target=parr") == ["parrot"]
    assert candidates('proctor run "support d') == ["support data.jsonl"]
    assert candidates("A=1 proctor runs show nig") == ["nightly"]
    assert candidates("proctor runs tag nig") == ["nightly"]


def test_other_shells_get_whole_words(project: Path, candidates: Complete) -> None:
    assert "plain,--target=parrot\tin targets.yaml" in candidates(
        "proctor run cheap --target=par", "fish", word="--target=par"
    )
    lines = candidates("proctor run cheap --target=par", "zsh")
    assert lines == ["plain", "--target=parrot", "in targets.yaml"]
    assert "file" in candidates("proctor run ", "zsh")


def test_what_could_act_in_a_terminal_or_a_shell_is_quoted_or_left_out(
    project: Path, candidates: Complete
) -> None:
    (project / "targets.yaml").write_text(
        'targets:\n  - name: "pa;rm -rf ~"\n    provider: echo\n'
        '  - name: "pa\\e]0;title\\a"\n    provider: echo\n  - name: "pa\\nplain"\n    provider: echo\n',
        encoding="utf-8",
    )
    (project / "pa$(touch x).jsonl").write_text(SUITE, encoding="utf-8")
    (project / "pa\n.jsonl").write_text(SUITE, encoding="utf-8")
    assert candidates("proctor run cheap --target pa") == [r"pa\;rm\ -rf\ \~"]
    assert candidates("proctor run pa") == [r"pa\$\(touch\ x\).jsonl"]
    assert candidates("proctor run cheap --target pa", "powershell") == []


# --- what it must not do -----------------------------------------------------------------------------------

LINES = (
    "proctor run ",
    "proctor run cheap --target ",
    "proctor run suites/support.jsonl --tag ",
    "proctor run --saved support --tag ",
    "proctor runs show ",
    "proctor suites show ",
    "proctor validate ",
    "proctor compare ",
)


def test_nothing_is_written(project: Path, candidates: Complete) -> None:
    before = snapshot(project)
    for line in LINES:
        candidates(line)
    assert snapshot(project) == before


def test_nothing_is_created_in_an_empty_folder(folder: Path, candidates: Complete) -> None:
    for line in LINES:
        candidates(line)
    assert list(folder.iterdir()) == []


def test_a_run_that_is_only_in_the_log_is_offered(
    project: Path, candidates: Complete, proctor: Proctor
) -> None:
    with closing(sqlite3.connect(project / ".proctor/proctor.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()  # keeps the log from being merged
        proctor("run", "support data.jsonl", "--target", "echo", "--no-holdout", "--quiet")
        before = {path: content for path, content in snapshot(project).items() if not path.endswith("-shm")}
        assert len(candidates("proctor runs show 2")) == 3
        after = {path: content for path, content in snapshot(project).items() if not path.endswith("-shm")}
    assert after == before


def test_an_earlier_store_is_read_and_not_migrated(project: Path, candidates: Complete) -> None:
    with closing(sqlite3.connect(project / ".proctor/proctor.db")) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
        db.commit()
        db.execute("PRAGMA journal_mode = DELETE")
    before = snapshot(project)
    assert "nightly" in candidates("proctor runs show ")
    assert snapshot(project) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("proctor.toml", "no = = toml"),
        ("proctor.toml", 'unknown = "key"\n'),
        ("proctor.toml", 'target = "a"\nrepeat = "many"\n'),
        ("targets.yaml", "targets: [\n"),
        ("targets.yaml", "a: {b: c}\n"),
        (".proctor/proctor.db", "no store " * 1000),
        (".proctor/proctor.db", ""),
        ("suites/support.jsonl", "{\n"),
    ],
)
def test_a_wrong_file_is_passed_over_silently(
    project: Path, candidates: Complete, name: str, content: str
) -> None:
    (project / name).write_text(content, encoding="utf-8")
    for line in LINES:
        candidates(line)
    assert "cheap" in candidates("proctor run ")
    assert "echo" in candidates("proctor run cheap --target ")


def test_a_line_that_makes_no_sense_has_no_candidates(candidates: Complete) -> None:
    for line in ("proctor nonsense ", "proctor run --nonsense ", "proctor runs show a b c ", "proctor 'a"):
        candidates(line)
    assert complete("tcsh_complete") == 1
    assert complete("") == 1


# --- the scripts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_script_of_each_shell_is_printed(proctor: Proctor, shell: str) -> None:
    result = proctor("completion", shell)
    assert result.code == 0
    assert f"_PROCTOR_COMPLETE={shell}_complete" in result.out or f"'{shell}_complete'" in result.out


def test_without_a_name_the_shell_is_that_of_the_user(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert proctor("completion").out == proctor("completion", "zsh").out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    result = proctor("completion")
    assert result.code == 4
    assert "Name a shell: bash, zsh, fish, powershell." in result.err


# --- programs ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_answers_by_the_protocol_and_loads_little(project: Path) -> None:
    code = (
        "import sys; from proctor.__main__ import main\n"
        "try: main()\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    environ = os.environ | {
        "COMP_WORDS": "proctor run cheap --target par",
        "_PROCTOR_COMPLETE": "bash_complete",
    }
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert process.stdout == "parrot\n"
    modules = set(process.stderr.split())
    assert not modules & {"asyncio", "aiohttp", "rich", "jsonschema", "jinja2", "uvloop"}
    assert not any(name.startswith("proctor.services.runs.execution") for name in modules)


@pytest.fixture(params=["bash", "zsh"])
def type_keys(
    request: pytest.FixtureRequest, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], None]]:
    """Types into an interactive shell that has loaded the script, and waits until the line is completed."""
    path = shutil.which(request.param)
    if path is None or sys.platform == "win32":
        pytest.skip(f"there is no {request.param} here")
    import pty

    bin_folder = tmp_path_factory.mktemp("bin")
    program = bin_folder / "proctor"
    program.write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environ = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "}
    script = subprocess.run(
        [program, "completion", request.param], env=environ, capture_output=True, encoding="utf-8", check=True
    ).stdout
    start = "autoload -U compinit; compinit -u -D\n" if request.param == "zsh" else ""
    settings = bin_folder / ".zshrc"
    settings.write_text(f"{start}{script}\necho ready\n", encoding="utf-8")
    words = [path, "-i"] if request.param == "zsh" else [path, "--noprofile", "--rcfile", str(settings), "-i"]
    terminal, side = pty.openpty()
    shell = subprocess.Popen(
        words,
        stdin=side,
        stdout=side,
        stderr=side,
        env=environ | {"ZDOTDIR": str(bin_folder)},
        start_new_session=True,
    )
    os.close(side)
    os.set_blocking(terminal, False)
    screen = bytearray()

    def read() -> str:
        try:
            while piece := os.read(terminal, 65536):
                screen.extend(piece)
        except OSError:
            pass
        return re.sub(r"\x1b\[[?\d;]*\w|[\x07\r]", "", screen.decode("utf-8", "replace"))

    def type_and_wait(keys: str, expected: str) -> None:
        screen.clear()
        os.write(terminal, keys.encode())
        wait_until(lambda: expected in read())
        os.write(terminal, b"\x15")  # clears the line

    wait_until(lambda: "ready" in read())
    try:
        yield type_and_wait
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


@pytest.mark.slow
def test_tab_completes_words_with_colons_equals_signs_and_spaces(
    type_keys: Callable[[str, str], None],
) -> None:
    type_keys("proctor vali\t", "proctor validate ")
    type_keys("proctor run suites/sup\t", "proctor run suites/support.jsonl ")
    type_keys("proctor run support\\ d\t", "proctor run support\\ data.jsonl ")
    type_keys("proctor run cheap --target par\t", "--target parrot ")
    type_keys("proctor run cheap --target=par\t", "--target=parrot ")
    type_keys("proctor run cheap --target groq\t", "--target groq:")
    type_keys("proctor run cheap --target openai:gpt-5.2\t", "--target openai:gpt-5.2 ")
    type_keys("proctor run --resume=nig\t", "--resume=nightly ")
    type_keys("true && proctor runs show nig\t", "runs show nightly ")
    type_keys("proctor run builtin:cheap --category reas\t", "--category reasoning ")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("proctor vali", "validate\t"),
        ("proctor run cheap --target par", "parrot\tin targets.yaml"),
        ("proctor run cheap --target=par", "--target=parrot\tin targets.yaml"),
        ("proctor run suites/sup", "suites/support.jsonl"),
        ("proctor run --resume=nig", "--resume=nightly\ttag"),
        ("proctor run cheap --tag lit", "literature"),
    ],
)
def test_in_fish_the_same_words_are_offered(project: Path, folder: Path, line: str, expected: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin/proctor"
    program.write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    process = subprocess.run(
        ["fish", "--no-config", "-c", f"source (proctor completion fish | psub); complete -C '{line}'"],
        env=os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    (candidate,) = process.stdout.splitlines()
    assert candidate.startswith(expected)
