"""Words to target specifications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import encode
from proctor.errors import UnknownName, UsageError
from proctor.model import Params, TargetSpec
from proctor.targets import iter_address_kinds, iter_kinds
from proctor.targets.parse import parse_target

OPENAI = "https://api.openai.com/v1"


def _parse(word: str, **environ: str) -> TargetSpec:
    return parse_target(word, Params(), environ)


@pytest.mark.parametrize(
    ("word", "kind", "model", "endpoint"),
    [
        ("openai:gpt-5.2", "openai", "gpt-5.2", OPENAI),
        ("openai:ft:gpt-4o:org::id", "openai", "ft:gpt-4o:org::id", OPENAI),
        ("openai:a/b@v2", "openai", "a/b@v2", OPENAI),
        ("openai:m@http://127.0.0.1:9009/v1", "openai", "m", "http://127.0.0.1:9009/v1"),
        ("openai:m@http://127.0.0.1:9009/v1/", "openai", "m", "http://127.0.0.1:9009/v1"),
        ("openai:a@b@https://h.example/v1", "openai", "a@b", "https://h.example/v1"),
        ("gpt-5.2@https://h.example/v1", "openai", "gpt-5.2", "https://h.example/v1"),
        ("anthropic:claude-x", "anthropic", "claude-x", None),
        ("anthropic:claude-x@https://h.example", "anthropic", "claude-x", "https://h.example"),
        ("google:gemini-x", "google", "gemini-x", None),
        ("deepseek:deepseek-chat", "openai", "deepseek-chat", "https://api.deepseek.com/v1"),
        ("groq:llama", "openai", "llama", "https://api.groq.com/openai/v1"),
        ("mistral:m", "openai", "m", "https://api.mistral.ai/v1"),
        ("together:a/b", "openai", "a/b", "https://api.together.xyz/v1"),
        ("nvidia:a/b", "openai", "a/b", "https://integrate.api.nvidia.com/v1"),
        ("ollama:llama3.2:1b", "openai", "llama3.2:1b", "http://127.0.0.1:11434/v1"),
        ("local", "local", "", None),
        ("local:SmolLM2-135M-Instruct", "local", "SmolLM2-135M-Instruct", None),
        ("local:/models/x.gguf", "local", "/models/x.gguf", None),
        ("command:python bot.py --x=1", "command", "python bot.py --x=1", None),
        ("function:bots.mine:answer", "function", "bots.mine:answer", None),
        ("replay:runs/a.jsonl", "replay", "runs/a.jsonl", None),
        ("scripted:C:\\x.jsonl", "scripted", "C:\\x.jsonl", None),
        ("echo", "echo", "", None),
        ("gpt-4o", "openai", "gpt-4o", OPENAI),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest", OPENAI),
        ("o1", "openai", "o1", OPENAI),
        ("o3-mini", "openai", "o3-mini", OPENAI),
        ("o4-mini", "openai", "o4-mini", OPENAI),
        ("claude-sonnet-4-6", "anthropic", "claude-sonnet-4-6", None),
        ("gemini-2.5-pro", "google", "gemini-2.5-pro", None),
        ("opus", "anthropic", "claude-opus-4-6", None),
        ("sonnet", "anthropic", "claude-sonnet-4-6", None),
        ("haiku", "anthropic", "claude-haiku-4-5", None),
        ("deepseek_chat", "openai", "deepseek-chat", "https://api.deepseek.com/v1"),
    ],
)
def test_a_word_names_a_target(word: str, kind: str, model: str, endpoint: str | None) -> None:
    assert _parse(word) == TargetSpec(name=word, kind=kind, model=model, endpoint=endpoint)


def test_the_parameters_are_handed_on() -> None:
    params = Params(temperature=0.7, seed=None, max_tokens=9)
    assert parse_target("echo", params, {}).params == params


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("opena:gpt-4o", "'openai'"),
        ("ecko", "'echo'"),
        ("sonet", "'sonnet'"),
        ("olama:x", "'ollama'"),
        ("graders/mine.py", "Did you mean 'function:graders.mine:NAME'"),
        ("mine.py:judge", "Did you mean 'function:mine:judge'"),
        ("zzz", "Expected one of"),
        ("", "Expected one of"),
        ("o5", "Expected one of|Did you mean"),
    ],
)
def test_an_unknown_word_suggests_the_nearest(word: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        _parse(word)


@pytest.mark.parametrize(
    "word", ["openai:", "openai:@http://h/v1", "command:", "function:", "replay:", "scripted", "echo:x"]
)
def test_a_word_that_is_not_complete_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parse(word)
    assert not isinstance(caught.value, UnknownName)


@pytest.mark.parametrize(
    "word",
    [
        "openai:m@https://ann:hunter2@h.example/v1",
        "openai:m@https://hunter2@h.example/v1",
        "anthropic:m@https://h.example/v1?key=hunter2",
        "google:m@https://h.example/#hunter2",
    ],
)
def test_a_secret_inside_an_address_is_refused_and_not_repeated(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parse(word)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://", "http:///v1", "http://h:port/v1", "https://[::1/v1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        _parse(f"openai:m@{address}")


def test_openai_base_url_moves_openai_and_nothing_else() -> None:
    base = "https://gateway.example/v1/"
    assert _parse("openai:m", OPENAI_BASE_URL=base).endpoint == "https://gateway.example/v1"
    assert _parse("gpt-4o", OPENAI_BASE_URL=base).endpoint == "https://gateway.example/v1"
    assert _parse("groq:m", OPENAI_BASE_URL=base).endpoint == "https://api.groq.com/openai/v1"
    assert _parse("openai:m@http://h/v1", OPENAI_BASE_URL=base).endpoint == "http://h/v1"
    with pytest.raises(UsageError):
        _parse("openai:m", OPENAI_BASE_URL="https://ann:hunter2@gateway.example/v1")


def test_azures_address_comes_from_the_word_or_from_the_environment() -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/"}
    assert _parse("azure:d", **environ).endpoint == "https://x.openai.azure.com"
    assert _parse("azure:d@https://h.example", **environ).endpoint == "https://h.example"
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        _parse("azure:d")


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("box", "http://box:11434/v1"),
        ("http://box:1234/", "http://box:1234/v1"),
        ("https://box", "https://box:443/v1"),
    ],
)
def test_ollama_host_is_read_in_all_its_forms(host: str, endpoint: str) -> None:
    assert _parse("ollama:m", OLLAMA_HOST=host).endpoint == endpoint


@pytest.mark.slow
@given(st.text(max_size=30))
def test_any_word_names_a_target_or_is_refused_in_words(word: str) -> None:
    try:
        spec = _parse(word)
    except UsageError:
        return
    assert spec.name == word


@given(st.from_regex(r"[a-z0-9._/-]{1,12}", fullmatch=True))
def test_a_key_in_the_environment_is_never_in_a_specification(model: str) -> None:
    spec = parse_target(
        f"openai:{model}", Params(), {"OPENAI_API_KEY": "SECRET!", "PROCTOR_API_KEY": "SECRET!"}
    )
    assert b"SECRET!" not in encode(spec)


def test_every_kind_with_an_address_is_among_those_that_may_have_one() -> None:
    with_address = {kind.name for kind in iter_kinds() if kind.has_address}
    assert with_address <= {kind.name for kind in iter_address_kinds()}
    assert "openai" in with_address
    assert "command" not in {kind.name for kind in iter_address_kinds()}
