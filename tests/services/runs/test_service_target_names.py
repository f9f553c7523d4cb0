"""Names of targets, and the file that defines them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.errors import SuiteError, UnknownName, UsageError
from proctor.model import Params
from proctor.services.runs.planning.target_names import TargetNames

ONE_TARGET = "targets:\n  - {{name: {0}, provider: mock, response: {0}}}\n"


def _write(path: Path, name: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ONE_TARGET.format(name), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "place",
    [
        "targets.yaml",
        "targets.yml",
        ".proctor/targets.yaml",
        ".proctor/targets.yml",
        ".agentv/targets.yaml",
        ".agentv/targets.yml",
        "../targets.yaml",
        "../../.agentv/targets.yml",
    ],
)
def test_the_file_is_found_upward_from_the_folder(tmp_path: Path, place: str) -> None:
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    path = _write(start / place)
    names = TargetNames({}, start)
    assert names.path is not None
    assert names.path.resolve() == path.resolve()
    assert names.names() == ["mine"]


def test_the_nearest_file_counts_and_in_one_folder_the_first(tmp_path: Path) -> None:
    _write(tmp_path / "targets.yaml", "far")
    for name in (".agentv/targets.yaml", ".proctor/targets.yaml", "targets.yml", "targets.yaml"):
        _write(tmp_path / "a" / name, name.replace("/", "-"))
        assert TargetNames({}, tmp_path / "a").names() == [name.replace("/", "-")]


def test_nothing_is_looked_for_above_the_repository(tmp_path: Path) -> None:
    _write(tmp_path / "targets.yaml")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "a").mkdir()
    names = TargetNames({}, tmp_path / "repo" / "a")
    assert (names.path, names.file, names.names(), names.default) == (None, None, [], ())


def test_a_name_of_the_file_comes_before_a_word_and_a_word_is_still_one(folder: Path) -> None:
    _write(folder / "targets.yaml", "echo")
    names = TargetNames({})
    assert names.get_spec("echo", Params()).kind == "mock"
    assert names.get_spec("local", Params()).kind == "local"
    assert names.get_spec("mock:x", Params()).model == "x"


def test_the_default_is_the_target_of_that_name(folder: Path) -> None:
    _write(folder / "targets.yaml", "default")
    assert TargetNames({}).default == ("default",)
    _write(folder / "targets.yaml", "other")
    assert TargetNames({}).default == ()


def test_an_unknown_word_suggests_names_of_both(folder: Path) -> None:
    _write(folder / "targets.yaml", "production")
    with pytest.raises(UnknownName, match="'production'"):
        TargetNames({}).get_spec("prodction", Params())
    with pytest.raises(UnknownName, match="'ollama'"):
        TargetNames({}).get_spec("olama:x", Params())
    with pytest.raises(UsageError, match="is incomplete"):
        TargetNames({}).get_spec("replay:", Params())


def test_paths_begin_at_the_file_and_the_environment_is_the_one_given(folder: Path) -> None:
    (folder / "a").mkdir()
    text = "targets:\n- {name: t, provider: cli, command: x, cwd: work, env: {A: '${{ A }}'}}\n"
    (folder / "targets.yaml").write_text(text, encoding="utf-8")
    spec = TargetNames({"A": "1"}, folder / "a").get_spec("t", Params())
    assert spec.options["cwd"] == str(folder / "work")
    with pytest.raises(SuiteError, match="variable A"):
        TargetNames({}, folder / "a").get_spec("t", Params())


def test_a_file_that_is_wrong_is_told_where_it_is_before_anyone_is_asked(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "targets.yaml").write_text("targets:\n- {name: t, provider: nobody}\n", encoding="utf-8")
    names = TargetNames({}, folder / "a")
    assert names.get_spec("echo", Params()).kind == "echo"
    with pytest.raises(SuiteError) as caught:
        names.get_spec("t", Params())
    assert str(caught.value).startswith(f"{Path('a', 'targets.yaml')}:2: error: Target 't': ")
    (folder / "a" / "targets.yaml").write_text("target: []", encoding="utf-8")
    with pytest.raises(SuiteError, match="list `targets`"):
        TargetNames({}, folder / "a").get_spec("echo", Params())


def test_an_unknown_word_is_told_which_entries_of_the_file_have_no_name(folder: Path) -> None:
    text = "targets:\n- {nme: mine, provider: mock}\n- {name: other, provider: mock}\n- 5\n"
    (folder / "targets.yaml").write_text(text, encoding="utf-8")
    assert TargetNames({}).get_spec("other", Params()).kind == "mock"
    with pytest.raises(UnknownName, match=r"'mine'.* In 'targets\.yaml', .* no name: 2 and 4"):
        TargetNames({}).get_spec("mine", Params())


@pytest.mark.parametrize(
    ("data", "line"), [(b"\xef\xbb\xbftargets: []", None), (b"targets:\n- \xff", 2), (b"targets: [\xff]", 1)]
)
def test_the_file_is_utf8_with_or_without_its_mark(folder: Path, data: bytes, line: int | None) -> None:
    (folder / "targets.yaml").write_bytes(data)
    if line is None:
        assert TargetNames({}).names() == []
        return
    with pytest.raises(SuiteError) as caught:
        TargetNames({}).names()
    assert [problem.line for problem in caught.value.problems] == [line]


def test_the_file_is_read_once_and_only_when_it_is_needed(folder: Path) -> None:
    names = TargetNames({})
    path = _write(folder / "targets.yaml")
    assert names.names() == ["mine"]
    path.unlink()
    assert names.get_spec("mine", Params()).kind == "mock"


def test_a_name_that_only_the_file_beside_the_suite_has_is_told_with_what_to_do(folder: Path) -> None:
    _write(folder / "targets.yaml", "mine")
    _write(folder / "suite" / "targets.yaml", "desk")
    near = TargetNames({}).for_folder(str(folder / "suite"))
    with pytest.raises(UnknownName) as caught:
        near.get_spec("desk", Params())
    other = str(Path("suite", "targets.yaml"))
    assert f"{other!r} has it, but 'targets.yaml' applies here" in str(caught.value)
    assert "Run the command in 'suite'" in str(caught.value)
    assert near.get_spec("mine", Params()).kind == "mock"
    with pytest.raises(UnknownName) as caught:
        near.get_spec("nobody", Params())
    assert "applies here" not in str(caught.value)
    (folder / "suite" / "targets.yaml").write_text("targets: [desk]", encoding="utf-8")
    with pytest.raises(UnknownName, match="Unknown target 'desk'"):
        TargetNames({}).for_folder(str(folder / "suite")).get_spec("desk", Params())
