"""A dialect that is only added to the table has all that its record says, with no change anywhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from proctor.cli.main import cli
from proctor.dialects import DIALECTS, get_writable, writable_names
from proctor.errors import SuiteError, UsageError
from proctor.model import Assertion, Case, Message, PassRule, Problem, Suite
from proctor.protocols import Dialect, DialectSetting, Head, Placed, Rendered, Source
from proctor.services.runs.config import load_config
from proctor.services.suites import upload
from proctor.services.suites.convert import MAIN, converted
from proctor.services.suites.file_source import source_of
from proctor.services.suites.folder_search import contents_of
from proctor.services.suites.load import dialect_of, load
from proctor.services.suites.save_upload import options_of

BEGINNING = "tides!"


def cases_of(path: str, data: bytes) -> Iterator[Placed]:
    for line, text in enumerate(data.decode().splitlines()[1:], 2):
        name, question, answer = text.split("|")
        assertion = Assertion(grader="exact", params={"value": answer})
        message = Message(role="user", content=question)
        metadata = {"sheet": path} if path else {}
        case = Case(id=name, input=(message,), assertions=(assertion,), metadata=metadata)
        yield Placed(case, line)


class Tides(Dialect):
    """Lines of `id|question|answer` after a first line; all `.tide` files of a folder are one suite."""

    endings = (".tide",)
    has_rows = False
    reads_folders = True
    file_field = "sheet"
    pass_rule = PassRule()
    renderer = f"{__name__}:render"
    written_ending = ".tide"
    written_form = "lines"

    def recognises(self, head: Head) -> str | None:
        return "it begins as tides do" if head.text.startswith(BEGINNING) else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        yield Suite(name="tides", dialect="tides", pass_rule=self.pass_rule)
        if not source.is_folder:
            yield from cases_of(Path(source.path).name, b"".join(source.lines()))
        for path in source.expand("**/*.tide") if source.is_folder else ():
            file = source.find(path)
            assert file is not None
            yield from cases_of(path, file.data)

    def settings(self) -> tuple[DialectSetting, ...]:
        return DialectSetting("tide-moon"), DialectSetting("tide-sea", ("north", "baltic"))

    def is_test_of_folder(self, path: str, read: Callable[[], bytes]) -> bool:
        return path.endswith(".tide") and read().startswith(BEGINNING.encode())

    def published_hash(self, source: Source) -> str:
        return "tides:" + hashlib.sha256(b"".join(source.lines())).hexdigest()[:8]


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[Rendered | Problem]:
    yield Rendered("", f"{BEGINNING}\n".encode())
    for case in cases:
        line = f"{case.id}|{case.input[0].content}|{case.assertions[0].params['value']}\n"
        yield Rendered("", line.encode())


@pytest.fixture(autouse=True)
def tides() -> Iterator[None]:
    DIALECTS.add("tides", Tides())
    yield
    for table in (DIALECTS._where, DIALECTS._instances):
        del table["tides"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "a.tide").write_text(f"{BEGINNING}\na|High?|yes\n")
    (tmp_path / "b.tide").write_text(f"{BEGINNING}\nb|Low?|no\n")
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sea.tide"
    path.write_text(f"{BEGINNING}\na|High?|yes\n")
    return path


def test_a_file_is_recognised_and_loaded(file: Path) -> None:
    loaded = load(file)
    assert (loaded.suite.dialect, loaded.suite.case_count, loaded.problems) == ("tides", 1, ())


def test_a_folder_is_one_suite_of_the_dialect_whose_tests_it_has(folder: Path) -> None:
    assert contents_of(folder, source_of).suites == (folder,)
    loaded = load(folder)
    assert (loaded.suite.dialect, loaded.suite.case_count) == ("tides", 2)


def test_a_folder_with_tests_of_two_dialects_is_refused(folder: Path) -> None:
    (folder / "c.md").write_text("# 👤\n\nHello\n", encoding="utf-8")
    with pytest.raises(SuiteError, match=r"more than one dialect: ai_tester, tides"):
        dialect_of(source_of(folder))


def test_a_folder_of_another_dialect_stays_one(tmp_path: Path) -> None:
    (tmp_path / "c.md").write_text("# 👤\n\nHello\n", encoding="utf-8")
    assert dialect_of(source_of(tmp_path)) == "ai_tester"
    assert contents_of(tmp_path, source_of).suites == (tmp_path,)


def test_the_published_hash_is_the_dialects_own(file: Path) -> None:
    expected = DIALECTS.get("tides").published_hash(source_of(file))
    result = CliRunner().invoke(cli, ["hash", str(file)])
    assert (result.exit_code, result.output) == (0, f"{expected}  {file}\n")


def test_a_suite_is_written_with_the_dialects_ending_and_pass_rule() -> None:
    assert "tides" in writable_names()
    assert get_writable("tides").written_form == "lines"
    (placed,) = cases_of("", f"{BEGINNING}\na|High?|yes\n".encode())
    suite = Suite(name="sea", dialect="meridian", pass_rule=PassRule(threshold=1.0))
    made = converted(suite, [placed.case], "tides", lossy=False)
    assert (made.name_hint, made.files[MAIN]) == ("sea.tide", f"{BEGINNING}\na|High?|yes\n".encode())
    assert [(problem.level, problem.field) for problem in made.problems] == [("warning", "pass_rule")]


def test_its_settings_are_keys_of_the_project_file_and_options_of_what_it_reads(file: Path) -> None:
    project_file = file.with_name("proctor.toml")
    project_file.write_text('tide-moon = true\ntide-sea = "baltic"\nrepeat = 2\n', encoding="utf-8")
    config = load_config(["repeat"], file.parent)
    assert config.flags == {"repeat": 2}
    assert config.reading(file) == options_of(config) == {"tide_moon": True, "tide_sea": "baltic"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tide-moon = 1", "`tide-moon` is 1; give true or false."),
        ("tide-sea = 'red'", "`tide-sea` is 'red'; give one of: north, baltic."),
        ("tide-se = 'north'", "'tide-se' is no key of this file. Did you mean 'tide-sea'"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_the_right_ones(file: Path, text: str, message: str) -> None:
    file.with_name("proctor.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_config(["repeat"], file.parent)


def test_a_text_that_is_pasted_gets_the_dialects_ending() -> None:
    text = f"{BEGINNING}\na|High?|yes\n"
    assert upload.of_text(text, "", "tides").main == "suite.tide"
    assert upload.of_text(text, "sea.tide", "tides").main == "sea.tide"
    assert dialect_of(upload.source_of(upload.of_text(text, "", "tides"))) == "tides"


def test_files_that_are_uploaded_together_are_one_suite(folder: Path) -> None:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.tide")}
    uploaded = upload.of_files(files)
    assert uploaded.is_folder
    assert dialect_of(upload.source_of(uploaded)) == "tides"


def test_an_object_of_another_package_needs_to_recognise_and_read_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        def recognises(self, _head: Head) -> str | None:
            return None

        def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
            yield Suite(name=source.path, dialect="foreign")

    monkeypatch.setitem(globals(), "READER", Reader())
    monkeypatch.setitem(DIALECTS._where, "foreign", f"{__name__}:READER")
    foreign = DIALECTS.get("foreign")
    monkeypatch.delitem(DIALECTS._instances, "foreign")
    source = Source(path="x", lines=lambda: BytesIO(b""))
    assert [item.name for item in foreign.read(source) if isinstance(item, Suite)] == ["x"]
    assert (foreign.renderer, foreign.reads_folders, foreign.published_hash(source)) == ("", False, None)


def test_an_installed_renderer_writes_the_installed_dialect_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "far_dialect-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-dialect\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[proctor.dialects]\nfar = far_dialect:DIALECT\n\n[proctor.renderers]\nfar = far_dialect:render\n",
        "utf-8",
    )
    (tmp_path / "far_dialect.py").write_text(
        "from proctor.protocols import Rendered\n\n\n"
        "class DIALECT:\n"
        "    recognises = staticmethod(lambda head: None)\n"
        "    read = staticmethod(lambda source: iter(()))\n\n\n"
        "def render(suite, cases, *, lossy):\n"
        "    yield Rendered(path='', data=suite.name.encode())\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        written = list(get_writable("far").render(Suite(name="birds", dialect="far"), [], lossy=False))
    finally:
        DIALECTS._where.pop("far", None)
        DIALECTS._instances.pop("far", None)
    assert [item.data for item in written if isinstance(item, Rendered)] == [b"birds"]
