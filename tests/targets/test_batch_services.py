"""The batch APIs of three services, as one door: submit, find, poll and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proctor.batch_protocol import BatchReply, BatchRequest, BatchService
from proctor.errors import AnswerTooLarge, TargetError
from proctor.services.runs.execution.batched_target import open_service
from proctor.targets import TARGETS, iter_kinds
from proctor.targets.context import TargetContext
from support.apis import Api
from support.batches import KEY, KINDS, BatchHost, ServedBatch, serve_batches
from support.builders import NOON, make_spec

REQUESTS = [
    BatchRequest("p0-r0", b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'),
    BatchRequest("p1-r0", b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"y"}]}'),
]
GOOGLE_REQUESTS = [
    BatchRequest("p0-r0", b'{"contents":[{"parts":[{"text":"x"}]}]}'),
    BatchRequest("p1-r0", b'{"contents":[{"parts":[{"text":"y"}]}]}'),
]
MAX_ANSWER_BYTES = 1_000_000
NAME = "proctor-r1-0123456789ab"
IDS = ("p0-r0", "p1-r0")


@pytest.fixture
def host() -> Iterator[BatchHost]:
    with serve_batches() as batch_host:
        yield batch_host


Open = Callable[..., Any]


@pytest.fixture
def open_batches(opening: Callable[..., TargetContext], host: BatchHost) -> Open:
    async def open_kind(kind: str, url: str = "") -> BatchService:
        context = opening(PROCTOR_API_KEY=KEY)
        context.max_answer_bytes = MAX_ANSWER_BYTES
        spec = make_spec(kind, "m", (url or host.url) + ("/v1" if kind == "openai" else ""))
        target: Any = await TARGETS.get(kind).open_target(spec, context)
        return open_service(spec, target, context)

    return open_kind


def requests_for(kind: str) -> list[BatchRequest]:
    return GOOGLE_REQUESTS if kind == "google" else REQUESTS


async def read(service: BatchService, batch_id: str) -> list[BatchReply]:
    return [reply async for reply in service.read_replies(batch_id, NAME, IDS)]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_submitted_is_found_polled_and_read(
    open_batches: Open, host: BatchHost, kind: str
) -> None:
    service = await open_batches(kind)
    before = datetime.now(UTC)
    assert (await service.find(NAME, 2, before, ())).status is None
    submitted = await service.submit(requests_for(kind), NAME)
    assert not submitted.is_ended
    polled = await service.poll(submitted.batch_id)
    assert polled.is_ended
    match = await service.find(NAME, 2, before, ())
    assert match.status is not None
    assert (match.status.batch_id, match.is_certain) == (submitted.batch_id, True)
    replies = await read(service, submitted.batch_id)
    assert [reply.custom_id for reply in replies] == list(IDS)
    assert all(reply.error is None and reply.body for reply in replies)
    assert host.problems == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_is_found_by_a_machine_whose_clock_is_set_to_another_time_zone(
    open_batches: Open, kind: str
) -> None:
    service = await open_batches(kind)
    submitted = await service.submit(requests_for(kind), NAME)
    await service.poll(submitted.batch_id)
    match = await service.find(NAME, 2, datetime.now(UTC) + timedelta(hours=12), ())
    assert match.status is not None
    assert match.status.batch_id == submitted.batch_id


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_is_found_behind_many_others(open_batches: Open, host: BatchHost, kind: str) -> None:
    service = await open_batches(kind)
    submitted = await service.submit(requests_for(kind), NAME)
    others: dict[str, Any] = {f"p{number}-r0": {} for number in range(3)}
    host.batches += [ServedBatch(number, f"other-{number}", others) for number in range(1000, 1250)]
    match = await service.find(NAME, 2, datetime.now(UTC), ())
    assert match.status is not None
    assert match.status.batch_id == submitted.batch_id
    lists = [call for call in host.calls if call.startswith("GET") and call.endswith("/batches")]
    assert len(lists) > 2


@pytest.mark.parametrize("kind", KINDS)
async def test_batches_of_long_ago_are_not_listed(open_batches: Open, host: BatchHost, kind: str) -> None:
    service = await open_batches(kind)
    others = [ServedBatch(number, f"other-{number}", {"p0-r0": {}, "p1-r0": {}}) for number in range(300)]
    for batch in others:
        batch.created_at -= timedelta(days=2)
    host.batches += others
    assert (await service.find(NAME, 2, datetime.now(UTC), ())).status is None
    assert len(host.calls) == 1


async def test_anthropic_does_not_say_whose_a_batch_is_before_its_end(
    open_batches: Open, host: BatchHost
) -> None:
    service = await open_batches("anthropic")
    other = await service.submit(REQUESTS, "proctor-r1-ffffffffffff")
    host.is_released.clear()
    now = datetime.now(UTC)
    assert (await service.find(NAME, 3, now, ())).is_certain
    assert (await service.find(NAME, 2, now, {other.batch_id})).is_certain
    match = await service.find(NAME, 2, now, ())
    assert (match.status, match.is_certain) == (None, False)
    host.is_released.set()
    assert (await service.find(NAME, 2, now, ())) == match.__class__(None)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_that_a_service_echoes_is_in_no_message(open_batches: Open, api: Api, kind: str) -> None:
    api.reply({"error": {"message": f"Wrong key {KEY}."}}, 401)
    service = await open_batches(kind, api.url)
    for call in (service.poll("batches/b"), read(service, "batches/b"), service.find(NAME, 2, NOON, ())):
        with pytest.raises(TargetError) as caught:
            await call
        assert KEY not in str(caught.value)
        assert "[key]" in str(caught.value)
        assert not caught.value.transient


@pytest.mark.parametrize("kind", KINDS)
async def test_a_redirect_is_not_followed(open_batches: Open, api: Api, host: BatchHost, kind: str) -> None:
    api.reply({}, 302, Location=f"{host.url}/v1/batches/b")
    service = await open_batches(kind, api.url)
    with pytest.raises(TargetError, match="is not followed"):
        await service.poll("batches/b")
    assert host.calls == []


@pytest.mark.parametrize("name", ["../files/secret", "batches/../x", "batches/a/b", "batches/a?x=1", ""])
async def test_a_name_of_google_that_is_no_batch_reaches_no_other_address(
    open_batches: Open, host: BatchHost, name: str
) -> None:
    service = await open_batches("google")
    with pytest.raises(TargetError, match="is not the name of a batch"):
        await service.poll(name)
    assert host.calls == []


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_id_stays_one_part_of_a_path(open_batches: Open, host: BatchHost, kind: str) -> None:
    service = await open_batches(kind)
    with pytest.raises(TargetError):
        await service.poll("../../files?x=1#y")
    (call,) = set(host.calls)
    assert call.endswith("..%2F..%2Ffiles%3Fx%3D1%23y")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_too_large_is_an_error_of_its_own(
    open_batches: Open, host: BatchHost, kind: str
) -> None:
    host.answer = lambda custom_id, _body: "x" * MAX_ANSWER_BYTES if custom_id.startswith("p0") else "short"
    service = await open_batches(kind)
    submitted = await service.submit(requests_for(kind), NAME)
    await service.poll(submitted.batch_id)
    first, second = await read(service, submitted.batch_id)
    assert isinstance(first.error, AnswerTooLarge)
    assert second.error is None


async def test_a_list_that_is_cut_off_can_be_read_again(open_batches: Open, api: Api) -> None:
    api.reply(b'{"custom_id": "p0-r0-0123456789ab", "result": {"type": "expired"}}\n{"custom_i')
    service = await open_batches("anthropic", api.url)
    replies = await read(service, "b")
    assert [reply.custom_id for reply in replies] == ["p0-r0", None]
    assert "cannot be read" in str(replies[1].error)
    assert replies[1].error is not None
    assert replies[1].error.transient


async def test_a_service_that_answers_with_a_page_is_no_batch_service(open_batches: Open, api: Api) -> None:
    api.reply(b"<html>Welcome</html>")
    service = await open_batches("openai", api.url)
    with pytest.raises(TargetError, match="did not answer with the expected JSON"):
        await service.poll("b")


async def test_a_refused_connection_to_a_batch_service_is_transient(open_batches: Open) -> None:
    service = await open_batches("openai", "http://127.0.0.1:9")
    with pytest.raises(TargetError, match="No answer from") as caught:
        await service.poll("b")
    assert caught.value.transient


def test_only_services_whose_batch_api_is_known_have_batches() -> None:
    assert [kind.name for kind in iter_kinds() if kind.batches] == list(KINDS)
