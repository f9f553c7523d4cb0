"""Runs whose cases have files that a target does not take are refused before the first request."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.model import Selection, Settings
from proctor.stores.sqlite.store import SqliteStore
from support import media
from support.sessions import MakeRuns

OPENAI = "openai:gpt-5.2"
CLAUDE = "anthropic:claude-opus-4-6"
GEMINI = "google:gemini-3-pro"

WriteMedia = Callable[..., str]


@pytest.fixture
def write_media(folder: Path) -> WriteMedia:
    """Writes a suite of dialect proctor with one case for each list of (kind, file, bytes)."""

    def write(*cases: list[tuple[str, str, bytes]], **header: Any) -> str:
        lines: list[Any] = [{"proctor": 1, "name": "clips", **header}]
        for number, files in enumerate(cases):
            parts = [
                "What is it?",
                *(
                    {"kind": kind, "path": name, "data": b64encode(data).decode()}
                    for kind, name, data in files
                ),
            ]
            lines.append(
                {
                    "id": f"case-{number}",
                    "input": [{"role": "user", "content": "What is it?", "parts": parts}],
                    "assertions": [{"grader": "contains", "params": {"value": "is"}}],
                    "tags": ["files"] if files else [],
                }
            )
        (folder / "clips.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return "clips.jsonl"

    return write


VIDEO = ("video", "a/talk.mp4", media.MP4)
FLAC = ("audio", "song.flac", media.FLAC)


@pytest.mark.parametrize(
    ("target", "file", "words"),
    [
        (
            OPENAI,
            VIDEO,
            "accepts no videos.\nSelect other cases, for example with --id or --exclude-tag, or name a",
        ),
        (OPENAI, FLAC, "audio only as audio/mp3, audio/mpeg, audio/wav, audio/wave or audio/x-wav"),
        (CLAUDE, FLAC, "accepts no audio"),
        (CLAUDE, ("file", "a.zip", b"PK\x03\x04\xff"), "accepts no files of this type"),
        (CLAUDE, ("image", "a.bmp", b"BM\xff"), "accepts images only as image/gif, image/jpeg"),
        ("local", ("image", "a.png", media.PNG), "accepts no images"),
        ("local", ("file", "a.pdf", media.PDF), "accepts no PDFs"),
    ],
)
async def test_a_file_that_the_target_does_not_take_is_refused_by_name(
    make: MakeRuns, write_media: WriteMedia, store: SqliteStore, target: str, file: Any, words: str
) -> None:
    suite = write_media([], [file])
    with pytest.raises(UsageError) as caught:
        await make(suite, target, settings=Settings(selection=Selection()))
    message = str(caught.value)
    assert message.startswith(f"Case 'case-1' of clips has the file '{file[1]}' of type ")
    assert words in message
    assert "such as " in message
    assert list(store.runs()) == []


async def test_every_target_that_does_not_take_a_file_is_named(
    make: MakeRuns, write_media: WriteMedia
) -> None:
    with pytest.raises(UsageError) as caught:
        await make(write_media([VIDEO], [VIDEO], [FLAC]), f"{OPENAI} {CLAUDE} {GEMINI}")
    *lines, remedy = str(caught.value).splitlines()
    assert [line.partition(" of clips")[0] for line in lines] == [
        "Case 'case-0'",
        "Case 'case-2'",
        "Case 'case-0'",
        "Case 'case-2'",
    ]
    assert remedy.endswith("name a target that accepts them, such as google:MODEL.")


async def test_cases_that_are_not_selected_do_not_count(make: MakeRuns, write_media: WriteMedia) -> None:
    suite = write_media([], [VIDEO])
    (result,) = await make(suite, settings=Settings(selection=Selection(exclude_tags=("files",))))
    assert result.run.planned == 1
    with pytest.raises(UsageError, match="accepts no videos"):
        await make(suite, f"echo {OPENAI}")


async def test_a_case_that_names_its_target_is_held_against_that_one(
    make: MakeRuns, write_media: WriteMedia, folder: Path, environ: dict[str, str]
) -> None:
    environ["OPENAI_API_KEY"] = "sk-unused"
    suite = write_media([VIDEO])
    lines = (folder / suite).read_text(encoding="utf-8").splitlines()
    case = json.loads(lines[1])
    (folder / suite).write_text(f"{lines[0]}\n{json.dumps(case | {'target': 'echo'})}", encoding="utf-8")
    (result,) = await make(suite, OPENAI)
    assert result.tally.all.passed == 1
    (folder / suite).write_text(f"{lines[0]}\n{json.dumps(case | {'target': CLAUDE})}", encoding="utf-8")
    with pytest.raises(UsageError, match="the target 'anthropic:claude-opus-4-6' accepts no videos"):
        await make(suite, "echo")


async def test_a_fallback_must_take_the_files_too(
    make: MakeRuns, write_media: WriteMedia, folder: Path
) -> None:
    targets = "targets:\n- {name: first, provider: echo, fallback_targets: [second]}\n"
    targets += "- {name: second, provider: anthropic, model: claude-x}\n"
    (folder / ".proctor").mkdir(exist_ok=True)
    (folder / ".proctor" / "targets.yaml").write_text(targets, encoding="utf-8")
    with pytest.raises(UsageError, match="the target 'second' accepts no videos"):
        await make(write_media([VIDEO]), "first")


async def test_programs_and_functions_take_every_file(make: MakeRuns, write_media: WriteMedia) -> None:
    files = [VIDEO, FLAC, ("file", "a.pdf", media.PDF)]
    (result,) = await make(write_media(files), "echo")
    assert result.tally.all.passed == 1


async def test_the_file_of_a_held_out_case_is_not_named(make: MakeRuns, write_media: WriteMedia) -> None:
    suite = write_media(*([VIDEO] for _ in range(4)), split_rule={"ratio": 0.5})
    with pytest.raises(UsageError) as caught:
        await make(suite, OPENAI, settings=Settings(selection=Selection(split="holdout")))
    assert "has a file of type video/mp4" in str(caught.value)
    assert "talk" not in str(caught.value)
