"""A dialect works everywhere after it is added to the table of dialects, without other changes."""

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
from proctor.protocols import CaseAtLine, Dialect, DialectSetting, FileHead, RenderedFile, SuiteSource
from proctor.services.runs.config import load_config
from proctor.services.suites import upload
from proctor.services.suites.convert import MAIN_FILE, convert_suite
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.folder_search import search_folder
from proctor.services.suites.load import detect_dialect, load_suite
from proctor.services.suites.save_upload import upload_options

BEGINNING = "tides!"


def parse_cases(path: str, data: bytes) -> Iterator[CaseAtLine]:
    for line, text in enumerate(data.decode().splitlines()[1:], 2):
        name, question, answer = text.split("|")
        assertion = Assertion(grader="exact", params={"value": answer})
        message = Message(role="user", content=question)
        metadata = {"sheet": path} if path else {}
        case = Case(id=name, input=(message,), assertions=(assertion,), metadata=metadata)
        yield CaseAtLine(case, line)


class Tides(Dialect):
    """Lines of `id|question|answer` after a first line; all `.tide` files of a folder are one suite."""

    endings = (".tide",)
    has_rows = False
    reads_folders = True
    file_field = "sheet"
    pass_rule = PassRule()
    renderer = f"{__name__}:render"
    output_ending = ".tide"
    output_format = "lines"

    def recognises(self, head: FileHead) -> str | None:
        return "it begins as tides do" if head.text.startswith(BEGINNING) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        yield Suite(name="tides", dialect="tides", pass_rule=self.pass_rule)
        if not source.is_folder:
            yield from parse_cases(Path(source.path).name, b"".join(source.read_lines()))
        for path in source.expand_glob("**/*.tide") if source.is_folder else ():
            file = source.find_file(path)
            assert file is not None
            yield from parse_cases(path, file.data)

    def settings(self) -> tuple[DialectSetting, ...]:
        return DialectSetting("tide-moon"), DialectSetting("tide-sea", ("north", "baltic"))

    def marks_suite_folder(self, path: str, read: Callable[[], bytes]) -> bool:
        return path.endswith(".tide") and read().startswith(BEGINNING.encode())

    def published_hash(self, source: SuiteSource) -> str:
        return "tides:" + hashlib.sha256(b"".join(source.read_lines())).hexdigest()[:8]


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    yield RenderedFile("", f"{BEGINNING}\n".encode())
    for case in cases:
        line = f"{case.id}|{case.input[0].content}|{case.assertions[0].params['value']}\n"
        yield RenderedFile("", line.encode())


@pytest.fixture(autouse=True)
def tides() -> Iterator[None]:
    DIALECTS.add("tides", Tides())
    yield
    for table in (DIALECTS._locations, DIALECTS._instances):
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
    suite_load = load_suite(file)
    assert (suite_load.suite.dialect, suite_load.suite.case_count, suite_load.problems) == ("tides", 1, ())


def test_a_folder_is_one_suite_of_the_dialect_whose_tests_it_has(folder: Path) -> None:
    assert search_folder(folder, source_from_path).suites == (folder,)
    suite_load = load_suite(folder)
    assert (suite_load.suite.dialect, suite_load.suite.case_count) == ("tides", 2)


def test_a_folder_with_tests_of_two_dialects_is_refused(folder: Path) -> None:
    (folder / "c.md").write_text("# 👤\n\nHello\n", encoding="utf-8")
    with pytest.raises(SuiteError, match=r"more than one suite format: ai_tester, tides"):
        detect_dialect(source_from_path(folder))


def test_a_folder_of_another_dialect_stays_one(tmp_path: Path) -> None:
    (tmp_path / "c.md").write_text("# 👤\n\nHello\n", encoding="utf-8")
    assert detect_dialect(source_from_path(tmp_path)) == "ai_tester"
    assert search_folder(tmp_path, source_from_path).suites == (tmp_path,)


def test_the_published_hash_is_the_dialects_own(file: Path) -> None:
    expected = DIALECTS.get("tides").published_hash(source_from_path(file))
    result = CliRunner().invoke(cli, ["hash", str(file)])
    assert (result.exit_code, result.output) == (0, f"{expected}  {file}\n")


def test_a_suite_is_written_with_the_dialects_ending_and_pass_rule() -> None:
    assert "tides" in writable_names()
    assert get_writable("tides").output_format == "lines"
    (case_at_line,) = parse_cases("", f"{BEGINNING}\na|High?|yes\n".encode())
    suite = Suite(name="sea", dialect="meridian", pass_rule=PassRule(threshold=1.0))
    conversion = convert_suite(suite, [case_at_line.case], "tides", lossy=False)
    assert (conversion.name_hint, conversion.files[MAIN_FILE]) == (
        "sea.tide",
        f"{BEGINNING}\na|High?|yes\n".encode(),
    )
    assert [(problem.level, problem.field) for problem in conversion.problems] == [("warning", "pass_rule")]


def test_its_settings_are_keys_of_the_project_file_and_options_of_what_it_reads(file: Path) -> None:
    project_file = file.with_name("proctor.toml")
    project_file.write_text('tide-moon = true\ntide-sea = "baltic"\nrepeat = 2\n', encoding="utf-8")
    config = load_config(["repeat"], file.parent)
    assert config.flags == {"repeat": 2}
    assert config.source_options(file) == upload_options(config) == {"tide_moon": True, "tide_sea": "baltic"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tide-moon = 1", "`tide-moon` is 1. Give true or false."),
        ("tide-sea = 'red'", "`tide-sea` is 'red'. Give one of: north, baltic."),
        ("tide-se = 'north'", "Unknown key 'tide-se'. Did you mean 'tide-sea'"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_the_right_ones(file: Path, text: str, message: str) -> None:
    file.with_name("proctor.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_config(["repeat"], file.parent)


def test_a_text_that_is_pasted_gets_the_dialects_ending() -> None:
    text = f"{BEGINNING}\na|High?|yes\n"
    assert upload.upload_from_text(text, "", "tides").main == "suite.tide"
    assert upload.upload_from_text(text, "sea.tide", "tides").main == "sea.tide"
    assert detect_dialect(upload.source_from_upload(upload.upload_from_text(text, "", "tides"))) == "tides"


def test_files_that_are_uploaded_together_are_one_suite(folder: Path) -> None:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.tide")}
    uploaded = upload.upload_from_files(files)
    assert uploaded.is_folder
    assert detect_dialect(upload.source_from_upload(uploaded)) == "tides"


def test_an_object_of_another_package_needs_to_recognise_and_read_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        def recognises(self, _head: FileHead) -> str | None:
            return None

        def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
            yield Suite(name=source.path, dialect="foreign")

    monkeypatch.setitem(globals(), "READER", Reader())
    monkeypatch.setitem(DIALECTS._locations, "foreign", f"{__name__}:READER")
    foreign = DIALECTS.get("foreign")
    monkeypatch.delitem(DIALECTS._instances, "foreign")
    source = SuiteSource(path="x", read_lines=lambda: BytesIO(b""))
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
        "from proctor.protocols import RenderedFile\n\n\n"
        "class DIALECT:\n"
        "    recognises = staticmethod(lambda head: None)\n"
        "    read = staticmethod(lambda source: iter(()))\n\n\n"
        "def render(suite, cases, *, lossy):\n"
        "    yield RenderedFile(path='', data=suite.name.encode())\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        items = list(get_writable("far").render(Suite(name="birds", dialect="far"), [], lossy=False))
    finally:
        DIALECTS._locations.pop("far", None)
        DIALECTS._instances.pop("far", None)
    assert [item.data for item in items if isinstance(item, RenderedFile)] == [b"birds"]
