"""Answers from the cache: their keys, what is never cached, and the reasons of a miss."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.engines.caching import CachedTarget, CacheStats, CallCounts
from proctor.errors import TargetError
from proctor.model import (
    Attachment,
    Message,
    Output,
    Params,
    Prompt,
    TargetSpec,
    Tool,
    ToolCall,
    Usage,
)
from proctor.targets import get_kind

SPEC = TargetSpec(name="m", kind="openai", model="m-1", endpoint="http://a/v1", params=Params(max_tokens=9))
USER = Message(role="user", content="well?")
PROMPT = Prompt(messages=(USER,), case_id="c")
FULL = Output(
    text="4",
    usage=Usage(input_tokens=3, output_tokens=1),
    latency_ms=120.0,
    queue_ms=30.0,
    cost_usd=0.5,
    finish_reason="stop",
    model="m-1-2026",
    tool_calls=(ToolCall(name="look", arguments={"at": ["x"]}, output={"n": 1}),),
)


class MemoryCache:
    """A cache in memory. `reopen` makes its entries those of an earlier run."""

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[bytes | None, str]] = {}
        self._new: list[tuple[str, bytes]] = []
        self._earlier: list[tuple[str, bytes]] = []

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        return self.entries.get(key)

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        self.entries[key] = (value, why_not)
        self._new.append((about, parts))

    def earlier_parts(self, about: str) -> list[bytes]:
        return [parts for key, parts in reversed(self._earlier) if key == about]

    def reopen(self) -> None:
        self._earlier += self._new
        self._new = []

    def close(self) -> None:
        pass


class Model:
    """Gives its answers in turn and counts the calls."""

    def __init__(self, *answers: Output | TargetError) -> None:
        self._answers = answers or (FULL,)
        self.calls = 0

    async def answer(self, prompt: Prompt) -> Output:
        self.calls += 1
        answer = self._answers[(self.calls - 1) % len(self._answers)]
        if isinstance(answer, TargetError):
            raise answer
        return answer


class Run:
    """A run over a cache that other runs use before and after it."""

    def __init__(
        self, cache: MemoryCache, spec: TargetSpec = SPEC, model: Model | None = None, **fields: Any
    ) -> None:
        self.model = model or Model()
        self.lookups = CacheStats()
        self._cached = CachedTarget(self.model, spec, cache, self.lookups, **fields)

    async def ask(self, prompt: Prompt = PROMPT) -> Output | None:
        try:
            return await self._cached.answer(prompt)
        except TargetError:
            return None

    @property
    def reasons(self) -> list[str]:
        return list(self.lookups.misses)


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


async def test_what_was_asked_before_is_not_asked_again(cache: MemoryCache) -> None:
    first, second = Run(cache), Run(cache)
    assert await first.ask() == FULL
    assert await second.ask() == replace(FULL, queue_ms=0.0, cached=True)
    assert (first.model.calls, second.model.calls) == (1, 0)
    assert (second.lookups.hits, second.reasons) == (1, [])


async def test_an_answer_is_had_again_in_the_same_run(cache: MemoryCache) -> None:
    run = Run(cache)
    await run.ask()
    await run.ask(replace(PROMPT, case_id="another case that asks the same"))
    assert (run.model.calls, run.lookups.hits) == (1, 1)


def change_prompt(**fields: Any) -> Callable[[], tuple[TargetSpec, Prompt]]:
    return lambda: (SPEC, replace(PROMPT, **fields))


def change_spec(**fields: Any) -> Callable[[], tuple[TargetSpec, Prompt]]:
    return lambda: (replace(SPEC, **fields), PROMPT)


def with_params(**fields: Any) -> Callable[[], tuple[TargetSpec, Prompt]]:
    return change_spec(params=replace(SPEC.params, **fields))


FILE = Attachment(kind="file", path="a.txt", text="one")
DIFFERENCES = [
    (change_spec(kind="azure"), "kind openai instead of azure"),
    (change_spec(model="m-2"), "model m-1 instead of m-2"),
    (change_spec(endpoint="http://b/v1"), "endpoint http://a/v1 instead of http://b/v1"),
    (change_spec(endpoint=None), "endpoint http://a/v1 instead of unset"),
    (change_spec(options={"system_prompt": "Be brief."}), "other options"),
    (with_params(temperature=0.7), "temperature 0 instead of 0.7"),
    (with_params(temperature=None), "temperature 0 instead of unset"),
    (with_params(seed=7), "seed 42 instead of 7"),
    (with_params(max_tokens=10), "max tokens 9 instead of 10"),
    (change_prompt(temperature=0.3), "temperature 0 instead of 0.3"),
    (change_prompt(response_schema={"type": "object"}), "another response schema"),
    (change_prompt(json_answer=True), "json answer unset instead of True"),
    (change_prompt(tools=(Tool(name="t"),)), "other tools"),
    (change_prompt(choices=("yes", "no")), "other choices"),
    (change_prompt(choice_delimiter=""), "another choice delimiter"),
    (change_prompt(messages=(replace(USER, content="and?"),)), "other messages"),
    (change_prompt(messages=(replace(USER, role="system"),)), "other messages"),
    (change_prompt(messages=(replace(USER, name="x"),)), "other messages"),
    (change_prompt(messages=(replace(USER, tool_calls=(ToolCall(name="t"),)),)), "other messages"),
    (change_prompt(messages=(replace(USER, parts=(FILE,)),)), "other messages"),
    (change_prompt(messages=(USER, USER)), "other messages"),
]


@pytest.mark.parametrize(("make_request", "difference"), DIFFERENCES)
async def test_whatever_an_answer_depends_on_is_asked_anew_and_named(
    cache: MemoryCache, make_request: Callable[[], tuple[TargetSpec, Prompt]], difference: str
) -> None:
    await Run(cache).ask()
    cache.reopen()
    spec, prompt = make_request()
    run = Run(cache, spec)
    await run.ask(prompt)
    assert (run.model.calls, run.reasons) == (1, [f"sent before with {difference}"])
    await run.ask(prompt)
    assert run.lookups.hits == 1


async def test_what_is_no_longer_asked_is_named_as_well(cache: MemoryCache) -> None:
    await Run(cache).ask(replace(PROMPT, tools=(Tool(name="t"),)))
    cache.reopen()
    run = Run(cache)
    await run.ask()
    assert run.reasons == ["sent before with other tools"]


async def test_a_prompt_without_json_and_tools_is_kept_as_before_there_were_such(cache: MemoryCache) -> None:
    await Run(cache).ask()
    cache.reopen()
    (parts,) = cache.earlier_parts("target c")
    assert decode(parts, dict).keys() == {
        *("kind", "model", "endpoint", "options", "temperature", "seed", "max_tokens"),
        *("messages", "repeat", "response_schema"),
    }
    assert set(cache.entries) == {sha256(b"proctor/cache/1\n" + parts).digest()}


async def test_the_content_of_an_attachment_counts(cache: MemoryCache) -> None:
    run = Run(cache)
    for text in ("one", "two", "one"):
        await run.ask(change_prompt(messages=(replace(USER, parts=(replace(FILE, text=text),)),))()[1])
    assert run.model.calls == 2


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, name="another name"),
        replace(SPEC, workers=2, retries=9),
        replace(SPEC, judge=SPEC),
        replace(SPEC, fallbacks=(SPEC,)),
    ],
)
async def test_what_an_answer_does_not_depend_on_changes_nothing(
    cache: MemoryCache, spec: TargetSpec
) -> None:
    await Run(cache).ask()
    run = Run(cache, spec)
    await run.ask()
    assert run.model.calls == 0


async def test_each_repeat_has_an_answer_of_its_own(cache: MemoryCache) -> None:
    await Run(cache).ask()
    cache.reopen()
    run = Run(cache)
    for repeat in (0, 1, 2, 1):
        await run.ask(replace(PROMPT, repeat=repeat))
    assert (run.model.calls, run.lookups.hits) == (2, 2)
    assert run.reasons == ["not sent for this repeat before"]


# --- what is not cached ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (TargetError("busy"), "failed"),
        (Output(text=""), "got an empty answer"),
        (Output(text=" \n"), "got an empty answer"),
        (Output(text="No.", finish_reason="content_filter"), "was refused an answer"),
        (Output(text="No.", finish_reason="refusal"), "was refused an answer"),
        (Output(text="No.", finish_reason="SAFETY"), "was refused an answer"),
        (Output(text="4", target="another"), "answered by a fallback"),
        (Output(text="the secret"), "got an answer that repeats a secret"),
    ],
)
async def test_what_is_no_answer_of_the_target_is_asked_again(
    cache: MemoryCache, answer: Output | TargetError, why: str
) -> None:
    model = Model(answer, FULL)
    runs = [Run(cache, model=model, secret=lambda output: "secret" in output.text) for _ in range(3)]
    outputs = [await run.ask() for run in runs]
    assert outputs == [
        None if isinstance(answer, TargetError) else answer,
        FULL,
        replace(FULL, queue_ms=0.0, cached=True),
    ]
    assert [run.reasons for run in runs] == [["never sent before"], [f"sent before but {why}"], []]


async def test_what_is_no_answer_is_not_even_kept(cache: MemoryCache) -> None:
    await Run(cache, model=Model(Output(text="the secret")), secret=lambda _output: True).ask()
    assert [value for value, _ in cache.entries.values()] == [None]


async def test_a_call_without_text_that_uses_a_tool_is_an_answer(cache: MemoryCache) -> None:
    model = Model(Output(text="", tool_calls=(ToolCall(name="look"),)))
    for _ in range(2):
        await Run(cache, model=model).ask()
    assert model.calls == 1


async def test_a_spent_budget_leaves_no_trace(cache: MemoryCache) -> None:
    await Run(cache, model=Model(TargetError("spent", kind="budget"))).ask()
    assert cache.entries == {}


async def test_what_happens_in_a_workspace_is_never_taken_from_the_cache(cache: MemoryCache) -> None:
    await Run(cache).ask()
    run = Run(cache)
    for _ in range(2):
        await run.ask(replace(PROMPT, workspace="/tmp/w"))
    assert (run.model.calls, run.reasons) == (2, ["not cached because the case has a workspace"])


@pytest.mark.parametrize(
    "kind", ["cli", "command", "echo", "function", "local", "mock", "replay", "scripted"]
)
async def test_what_is_answered_by_a_file_or_program_is_never_cached(cache: MemoryCache, kind: str) -> None:
    spec = TargetSpec(name=kind, kind=kind)
    run = Run(cache, spec, is_cacheable=get_kind(spec).is_cacheable)
    for _ in range(2):
        await run.ask()
    assert run.model.calls == 2
    assert run.reasons == [f"not cached because the program or file behind a {kind} target may change"]


async def test_what_cannot_be_read_is_asked_again_and_kept_anew(cache: MemoryCache) -> None:
    await Run(cache).ask()
    for broken in (b"{", b'{"text": 4}', b'{"text": "\xff"}'):
        (key,) = cache.entries
        cache.entries[key] = (broken, "")
        run = Run(cache)
        await run.ask()
        assert (run.model.calls, run.reasons) == (1, ["sent before but kept in a form that cannot be read"])
        await run.ask()
        assert run.lookups.hits == 1


async def test_what_cannot_be_read_explains_nothing(cache: MemoryCache) -> None:
    for broken in (b"{", b"[1]", b'{"a": "\xff"}', b'{"messages": {}}'):
        cache.put(b"k", "target c", broken, None, "")
    cache.reopen()
    run = Run(cache)
    await run.ask()
    assert run.reasons == ["never sent before"]


async def test_half_a_character_in_a_prompt_is_asked_and_found_again(cache: MemoryCache) -> None:
    run = Run(cache)
    for content in ("\ud800", "\ud801", "\ud800"):
        await run.ask(change_prompt(messages=(replace(USER, content=content),))()[1])
    assert (run.model.calls, run.lookups.hits) == (2, 1)


# --- the reasons of a miss ---------------------------------------------------------------------------------


async def test_a_case_that_nobody_asked_was_never_asked_before(cache: MemoryCache) -> None:
    await Run(cache).ask()
    cache.reopen()
    run = Run(cache)
    await run.ask(Prompt(messages=(replace(USER, content="new"),), case_id="new"))
    assert run.reasons == ["never sent before"]


async def test_two_prompts_of_one_run_are_not_compared(cache: MemoryCache) -> None:
    run = Run(cache)
    for content in ("one", "two"):
        await run.ask(change_prompt(messages=(replace(USER, content=content),))()[1])
    assert run.reasons == ["never sent before"]


@pytest.mark.parametrize(
    ("spec", "prompt", "reason"),
    [
        # another judge of another answer was never called
        (replace(SPEC, model="m-2"), change_prompt(messages=(USER, USER))()[1], "never sent before"),
        (replace(SPEC, model="m-2"), PROMPT, "sent before with model m-1 instead of m-2"),
        (
            replace(SPEC, model="m-2", params=Params(seed=1, max_tokens=9)),
            PROMPT,
            "sent before with model m-1 instead of m-2 and seed 42 instead of 1",
        ),
    ],
)
async def test_only_what_shares_the_target_or_the_messages_was_asked_before(
    cache: MemoryCache, spec: TargetSpec, prompt: Prompt, reason: str
) -> None:
    await Run(cache).ask()
    cache.reopen()
    run = Run(cache, spec)
    await run.ask(prompt)
    assert run.reasons == [reason]


async def test_the_nearest_of_the_earlier_calls_is_compared(cache: MemoryCache) -> None:
    for seed in (2, 1):
        for temperature in (0.5, 0.0):
            await Run(cache, with_params(seed=seed, temperature=temperature)()[0]).ask()
    cache.reopen()
    run = Run(cache, with_params(seed=2, temperature=0.9)()[0])
    await run.ask()
    assert run.reasons == ["sent before with temperature 0 instead of 0.9"]  # the newer of the two nearest


async def test_a_judge_is_compared_with_judges_only(cache: MemoryCache) -> None:
    await Run(cache).ask()
    cache.reopen()
    run = Run(cache, role="judge")
    await run.ask(change_prompt(messages=(USER, USER))()[1])
    assert run.reasons == ["never sent before"]


@pytest.mark.parametrize(
    ("hits", "misses", "sentence"),
    [
        (0, {}, None),
        (1, {}, "1 answer came from the cache; no request was sent."),
        (0, {"never sent before": 3}, "0 answers came from the cache, 3 did not: 3 never sent before."),
        (
            1200,
            {"x failed": 1, "never sent before": 2000},
            "1,200 answers came from the cache, 2,001 did not: 2,000 never sent before, 1 x failed.",
        ),
    ],
)
def test_all_of_it_is_one_sentence(hits: int, misses: dict[str, int], sentence: str | None) -> None:
    parts = (CallCounts(cache_hits=hits), CallCounts(cache_misses=misses))
    assert parts[0].plus(parts[1]).notes() == ([] if sentence is None else [sentence])


async def test_what_is_kept_to_explain_holds_no_text_of_a_prompt_or_option(cache: MemoryCache) -> None:
    spec = replace(SPEC, options={"headers": "hidden"})
    await Run(cache, spec).ask(replace(PROMPT, messages=(replace(USER, content="hidden"),)))
    cache.reopen()
    (parts,) = cache.earlier_parts("target c")
    assert b"hidden" not in parts
    assert decode(parts, dict)["model"] == "m-1"
    assert encode(decode(parts, dict)) == parts


SCHEMA = {"type": "object", "properties": {"reasoning": {}, "answer": {}}}


async def test_a_plain_prompt_has_the_key_that_it_always_had(cache: MemoryCache) -> None:
    """Another key would lose every cached answer."""
    await Run(cache).ask()
    (key,) = cache.entries
    assert key.hex() == "6d6fa9b724e59b5c08828267f3c0db5556b0fbc96d63ae3d2e93c5c0cecfda24"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            replace(PROMPT, response_schema=SCHEMA),
            replace(PROMPT, response_schema={**SCHEMA, "properties": {"answer": {}, "reasoning": {}}}),
        ),
        (
            replace(PROMPT, tools=(Tool(name="t", parameters={"b": 1, "a": 1}),)),
            replace(PROMPT, tools=(Tool(name="t", parameters={"a": 1, "b": 1}),)),
        ),
        (
            replace(
                PROMPT,
                messages=(replace(USER, tool_calls=(ToolCall(name="t", arguments={"b": 1, "a": 1}),)),),
            ),
            replace(
                PROMPT,
                messages=(replace(USER, tool_calls=(ToolCall(name="t", arguments={"a": 1, "b": 1}),)),),
            ),
        ),
    ],
    ids=["schema", "tools", "calls"],
)
async def test_keys_in_another_order_are_another_question(
    cache: MemoryCache, first: Prompt, second: Prompt
) -> None:
    run = Run(cache)
    for prompt in (first, second, first, second):
        await run.ask(prompt)
    assert (run.model.calls, run.lookups.hits) == (2, 2)
