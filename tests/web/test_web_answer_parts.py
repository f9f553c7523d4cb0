"""What the page of a case shows of an answer besides its text, and the bytes of its attachments."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Run
from proctor.web.project import Project
from support.web import Visitor, make_runs, save_suite, visit

HOSTILE = "I <script>alert(1)</script> wonder."


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


ANSWER: dict[str, Any] = {
    "text": "It is Paris.",
    "reasoning": HOSTILE,
    "usage": {"input_tokens": 1204, "cached_tokens": 800, "output_tokens": 61, "reasoning_tokens": 58},
    "latency_ms": 900.0,
    "first_token_ms": 300.0,
    "logprobs": [
        {"token": "It", "logprob": -0.01},
        {"token": ' <b>"', "logprob": -3.0, "top": [[' <b>"', -3.0], ["\n<i>", -0.1]]},
    ],
    "attachments": [
        {"kind": "image", "path": "map.png", "media_type": "image/png", "data": encoded(b"\x89PNG")},
        {"kind": "file", "path": 'a"b\r\nX: y.wav', "media_type": "audio/wav", "data": encoded(b"RIFF1234")},
        {"kind": "image", "path": "x.svg", "media_type": "image/svg+xml", "data": encoded(b"<svg/>")},
        {"kind": "file", "path": "x.html", "media_type": "text/html", "text": "<script>alert(2)</script>"},
    ],
    "finish_reason": "length",
    "response_id": "resp_<1>",
    "service_tier": "flex",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visitor, Run]]:
    """A server with a run of two cases: the first is held out or not, the second has a plain answer."""
    folder: Path = tmp_path_factory.mktemp("parts")
    header = {"proctor": 1, "name": "caps", "split_rule": {"ratio": 0.5}}
    checks = [
        {"grader": "contains", "params": {"value": "Paris"}},
        {"grader": "contains", "params": {"value": "wonder"}, "on": "reasoning"},
        {"grader": "ttft", "params": {"max_ms": 500}},
    ]
    cases = [
        {"id": f"c{n}", "input": [{"role": "user", "content": "Where?"}], "assertions": checks}
        for n in range(2)
    ]
    suite = "".join(json.dumps(row) + "\n" for row in (header, *cases))
    (folder / "a.jsonl").write_text(json.dumps({"*": ANSWER}), encoding="utf-8")
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "caps", suite)
    (run,) = make_runs(site, "caps", f"scripted:{folder}/a.jsonl")
    with visit(site) as server:
        yield server, run


def positions(world: tuple[Visitor, Run]) -> tuple[int, int]:
    """The position of the visible case, and of the held-out case."""
    server, run = world
    held_out = next(n for n in range(2) if "in the holdout" in server.page(f"/runs/{run.id}/cases/{n}"))
    return 1 - held_out, held_out


def test_the_reasoning_is_folded_marked_and_text(world: tuple[Visitor, Run]) -> None:
    server, run = world
    page = server.page(f"/runs/{run.id}/cases/{positions(world)[0]}")
    assert "<summary>Reasoning, 35 characters</summary>" in page
    assert "I &lt;script&gt;alert(1)&lt;/script&gt; <mark" in page
    assert "On the reasoning: The answer contains" in page
    assert re.search(r"<mark[^>]*>Paris</mark>", page)
    assert re.search(r"runs show \S+ --case c\d --full<", page)


def test_the_facts_have_speed_tokens_probability_and_ids(world: tuple[Visitor, Run]) -> None:
    server, run = world
    page = server.page(f"/runs/{run.id}/cases/{positions(world)[0]}")
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page))
    expected = {
        "first token": "300 ms",
        "speed": "100 tokens/s",
        "tokens": "1,204 in (800 cached), 61 out (58 reasoning)",
        "log-probability": "mean -1.505, perplexity 4.5, over 2 tokens",
        "ended by": "length",
        "service tier": "flex",
        "response id": "resp_&lt;1&gt;",
    }
    assert expected.items() <= facts.items()
    run_facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", server.page(f"/runs/{run.id}")))
    assert run_facts["first token"] == "median 300 ms, 95 % within 300 ms"
    assert run_facts["speed"] == "median 100 tokens/s, 95 % above 100"


def test_the_probabilities_are_a_view_with_a_table(world: tuple[Visitor, Run]) -> None:
    server, run = world
    place = f"/runs/{run.id}/cases/{positions(world)[0]}"
    assert f'href="{place}?view=tokens#answer">probabilities</a>' in server.page(place)
    page = server.page(f"{place}?view=tokens")
    assert '<span title="99.0%">It</span>' in page
    title = "5.0%; else &#34;\\n&lt;i&gt;&#34; 90.5%"
    assert f'<span class="unlikely" title="{title}"> &lt;b&gt;&#34;</span>' in page
    assert '<th scope="row"><code>&#34;It&#34;</code></th><td class="num">99.0%</td>' in page


def test_images_and_audio_are_shown_and_the_rest_is_a_download(world: tuple[Visitor, Run]) -> None:
    server, run = world
    place = f"/runs/{run.id}/cases/{positions(world)[0]}"
    page, media = server.page(place), f"{place}/answers/0/media"
    assert f'<img class="attached" src="{media}/0" alt="map.png"' in page
    assert f'<audio class="attached" controls preload="metadata" src="{media}/1"' in page
    assert f'src="{media}/2"' not in page
    assert f'<a href="{media}/2" download>x.svg</a> <span class="quiet">image, image/svg+xml, 6 bytes' in page
    assert "media-src 'self'" in dict(server.get(place).headers)["content-security-policy"]


@pytest.mark.parametrize(
    ("number", "media_type", "data"),
    [
        (0, "image/png", b"\x89PNG"),
        (1, "audio/wav", b"RIFF1234"),
        (2, "application/octet-stream", b"<svg/>"),
        (3, "application/octet-stream", b"<script>alert(2)</script>"),
    ],
)
def test_bytes_are_sent_so_that_no_browser_runs_them(
    world: tuple[Visitor, Run], number: int, media_type: str, data: bytes
) -> None:
    server, run = world
    answer = server.get(f"/runs/{run.id}/cases/{positions(world)[0]}/answers/0/media/{number}")
    headers = dict(answer.headers)
    assert (answer.status, answer.data, headers["content-type"]) == (200, data, media_type)
    assert headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+"', headers["content-disposition"])
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    ("requested", "status", "data"),
    [("bytes=0-3", 206, b"RIFF"), ("bytes=6-", 206, b"34"), ("bytes=9-", 200, b"RIFF1234")],
)
def test_a_player_gets_the_range_it_asks_for(
    world: tuple[Visitor, Run], requested: str, status: int, data: bytes
) -> None:
    server, run = world
    place = f"/runs/{run.id}/cases/{positions(world)[0]}/answers/0/media/1"
    answer = server.get(place, range=requested)
    assert (answer.status, answer.data) == (status, data)


def test_nothing_of_a_hidden_answer_is_shown_or_sent(world: tuple[Visitor, Run]) -> None:
    server, run = world
    visible, held_out = positions(world)
    page = server.page(f"/runs/{run.id}/cases/{held_out}?view=tokens")
    assert not re.search(r"Reasoning|probabilities|resp_|/media/", page)
    assert server.get(f"/runs/{run.id}/cases/{held_out}/answers/0/media/0").status == 404
    for path in (f"{visible}/answers/0/media/4", f"{visible}/answers/1/media/0", "7/answers/0/media/0"):
        assert server.get(f"/runs/{run.id}/cases/{path}").status == 404
