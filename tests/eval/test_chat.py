"""The chat client: requests and replies on the wire, threads, closing, and secrets that stay secret."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest

from proctor.errors import SuiteError, TargetError, TargetTimeout, UnknownName, UsageError
from proctor.eval import ChatClient
from proctor.model import Output, Prompt, TargetSpec, ToolCall
from support.endpoints import JsonHandler, serve_in_thread
from support.waiting import PATIENCE_S, wait_until

KEY = "sk-very-secret-0123456789"


class Endpoint:
    """A chat-completions endpoint on loopback; it repeats its last reply."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.replies: list[tuple[int, Any, dict[str, str]]] = []
        self.wait: Event | Barrier | None = None
        self.url = ""

    def add_reply(self, text: str, **more: Any) -> None:
        message = {"role": "assistant", "content": text}
        self.replies.append((200, {"choices": [{"message": message, "finish_reason": "stop"}], **more}, {}))

    def add_error(self, status: int, message: str, **headers: str) -> None:
        self.replies.append((status, {"error": {"message": message}}, headers))

    def handle(self, request: JsonHandler, body: Any) -> None:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.requests.append(body)
        status, reply, headers = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if self.wait is not None:
            self.wait.wait(PATIENCE_S)
        request.send_json(reply, status, **headers)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(JsonHandler):
        def handle_json(self, body: Any) -> None:
            with suppress(ConnectionError):  # the client has gone away
                endpoint.handle(self, body)

    with serve_in_thread(Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield endpoint


USER = [{"role": "user", "content": "How deep is the lock?"}]


def loop_threads() -> list[Thread]:
    return [thread for thread in threads() if thread.name == "proctor-loop"]


# --- one call ----------------------------------------------------------------------------------------------


def test_a_call_and_its_answer(endpoint: Endpoint) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    endpoint.add_reply("Nine metres.", model="deep-1", usage=usage)
    with ChatClient(endpoint.url, "deep", api_key=KEY) as client:
        reply = client.chat(
            [{"role": "system", "content": "Be brief."}, *USER], max_tokens=20, temperature=0.5
        )
        assert client.totals() == {
            "calls": 1,
            "failed": 0,
            "input_tokens": 12,
            "output_tokens": 3,
            "cost_usd": 0,
            "without_cost": 1,
        }
    more = reply.pop("proctor")
    assert reply == {
        "object": "chat.completion",
        "model": "deep-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Nine metres."}, "finish_reason": "stop"}
        ],
        "usage": {**usage, "total_tokens": 15},
    }
    assert more.keys() == {"latency_ms", "cost_usd", "refused_params"}
    assert more["latency_ms"] > 0
    (request,) = endpoint.requests
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, *USER]
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("deep", 20, 0.5)
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_as_a_function_it_gives_the_text(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep", max_tokens=7, temperature=1.0) as client:
        assert client("How deep is the lock?") == "Nine metres."
    (request,) = endpoint.requests
    assert (request["messages"], request["max_tokens"], request["temperature"]) == (USER, 7, 1.0)


def test_what_is_not_said_is_left_to_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        reply = client.chat(USER)
    assert "max_tokens" not in endpoint.requests[0]
    assert endpoint.requests[0]["temperature"] == 0
    assert (reply["model"], reply["usage"]) == ("deep", None)


def test_the_same_question_again_gets_the_next_seed(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        client.chat(USER)
        client("And the lake?")
        client.chat(USER)
        client.chat(USER, repeat=9)
    first, other, second, ninth = (request["seed"] for request in endpoint.requests)
    assert (other, second, ninth) == (first, first + 1, first + 9)


def test_json_is_asked_for_where_it_is_wanted(endpoint: Endpoint) -> None:
    endpoint.add_reply("{}")
    schema = {"type": "object", "properties": {"depth": {"type": "number"}}}
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    with ChatClient(endpoint.url, "deep") as client:
        client.chat(USER, response_format={"type": "json_object"})
        client.chat(USER, response_format=response_format)
        client.chat(USER, response_format={"type": "text"})
        with pytest.raises(UsageError, match=r"The response_format is {'type': 'xml'}"):
            client.chat(USER, response_format={"type": "xml"})
    first, second, third = endpoint.requests
    assert first["response_format"] == {"type": "json_object"}
    assert second["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in third


def test_a_parameter_that_the_endpoint_refuses_is_left_out_and_told(endpoint: Endpoint) -> None:
    endpoint.add_error(400, "Unsupported parameter: temperature")
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        assert client.chat(USER, temperature=0.5)["proctor"]["refused_params"] == ["temperature"]
    assert "temperature" not in endpoint.requests[-1]


def test_parts_of_text_are_one_text(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    parts = [{"type": "text", "text": "How deep"}, {"type": "text", "text": "is it?"}]
    with ChatClient(endpoint.url, "deep") as client:
        client.chat([{"role": "user", "content": parts}, {"role": "assistant", "content": None}])
    assert [message["content"] for message in endpoint.requests[0]["messages"]] == ["How deep\n\nis it?", ""]


def test_files_in_content_parts_are_sent(endpoint: Endpoint) -> None:
    endpoint.add_reply("A lock.")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    parts = [{"type": "text", "text": "What is it?"}, image, sound]
    with ChatClient(endpoint.url, "deep") as client:
        client.chat([{"role": "user", "content": parts}])
    assert endpoint.requests[0]["messages"] == [{"role": "user", "content": parts}]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "There are no messages"),
        (["How deep?"], "Message 1 is not a dictionary with a `role`: 'How deep\\?'"),
        ([*USER, {"content": "x"}], "Message 2 is not a dictionary with a `role`"),
        ([{"role": "user", "content": 4}], "Message 1 has content that is not text: 4"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "1: `content\\[0\\].image_url` is missing"),
        ([{"role": "user", "content": [4]}], "Message 1: `content\\[0\\]` is 4"),
        ([{"role": "assistant", "tool_calls": [{}]}], "Message 1 has `tool_calls`, which this client cannot"),
    ],
)
def test_messages_that_cannot_be_sent(messages: Any, complaint: str) -> None:
    with ChatClient("http://127.0.0.1:1/v1", "deep") as client, pytest.raises(TypeError, match=complaint):
        client.chat(messages)
    assert loop_threads() == []


# --- what goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint) -> None:
    endpoint.add_error(429, "Slow down.", retry_after="0")
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        assert client("How deep is the lock?") == "Nine metres."
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("status", [401, 500])
def test_no_answer_is_an_error_without_the_key(endpoint: Endpoint, status: int) -> None:
    endpoint.add_error(status, f"The key {KEY} is not good.")
    with ChatClient(endpoint.url, "deep", api_key=KEY, retries=0) as client:
        with pytest.raises(TargetError, match=rf"answered {status} .*The key \[key\] is not good") as caught:
            client("How deep is the lock?")
        assert client.totals()["failed"] == 1
        assert KEY not in "".join(map(str, (repr(client), caught.value, vars(client))))
    assert repr(client) == f"ChatClient('{endpoint.url}', 'deep')"


def test_an_answer_that_comes_too_late(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    endpoint.wait = Event()
    with (
        ChatClient(endpoint.url, "deep", timeout_s=0.05) as client,
        pytest.raises(TargetTimeout, match=r"No answer within 0\.05 s\. Use a larger timeout_s"),
    ):
        client("How deep is the lock?")
    endpoint.wait.set()


@pytest.mark.parametrize(
    ("base_url", "model", "api_key", "complaint"),
    [
        ("localhost:8000", "deep", None, "must look like http://HOST:PORT/v1"),
        ("http://me:pw@localhost/v1", "deep", None, "contains a user name or password"),
        ("http://localhost/v1?key=1", "deep", None, r"cannot have a part after \?"),
        ("http://localhost/v1", "", None, "needs the name of a model"),
        ("http://localhost/v1", "deep", f"{KEY}\n", "api_key has characters that no key contains"),
    ],
)
def test_a_client_that_cannot_be_made(base_url: str, model: str, api_key: str | None, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        ChatClient(base_url, model, api_key=api_key)
    assert KEY not in str(caught.value)


def test_the_key_of_another_service_is_not_sent(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("PROCTOR_API_KEY", raising=False)
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        client.chat(USER)
        monkeypatch.setenv("PROCTOR_API_KEY", "other")
    with ChatClient(endpoint.url, "deep") as client:
        client.chat(USER)
    assert [headers.get("authorization") for headers in endpoint.headers] == [None, "Bearer other"]


# --- threads, loops and closing ----------------------------------------------------------------------------


def test_calls_of_many_threads_are_under_way_at_the_same_time(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    endpoint.wait = Barrier(8)
    with ChatClient(endpoint.url, "deep") as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(client, map(str, range(8)))) == ["Nine metres."] * 8
        assert len(loop_threads()) == 1
        assert client.totals()["calls"] == 8
    assert loop_threads() == []


def test_a_closed_client_says_so(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    client = ChatClient(endpoint.url, "deep")
    client.close()
    client.close()
    with pytest.raises(UsageError, match=r"The client is closed\. Create another one\."):
        client("How deep is the lock?")
    assert endpoint.requests == []


def test_closing_ends_what_is_under_way(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    endpoint.wait = Event()
    client = ChatClient(endpoint.url, "deep")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client, "How deep is the lock?")
        wait_until(lambda: endpoint.requests)
        client.close()
        with pytest.raises(UsageError, match="The client is closed"):
            call.result(PATIENCE_S)
    endpoint.wait.set()
    assert loop_threads() == []


@pytest.mark.slow
def test_a_client_that_nobody_closes_ends_with_its_last_name(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    client = ChatClient(endpoint.url, "deep")
    client.chat(USER)
    (thread,) = loop_threads()
    del client
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_process_that_was_forked_off_is_told_to_make_its_own(endpoint: Endpoint) -> None:
    endpoint.add_reply("Nine metres.")
    with ChatClient(endpoint.url, "deep") as client:
        client.chat(USER)
        child = os.fork()
        if child == 0:  # nothing of pytest's may run here
            try:
                client.chat(USER)
            except UsageError as error:
                client.close()
                os._exit(0 if "before the fork. Create new ones there" in str(error) else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert client("And the lake?") == "Nine metres."


# --- over any target ---------------------------------------------------------------------------------------


class ScriptedTarget:
    def __init__(self, *outputs: Any) -> None:
        self.outputs = list(outputs)
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Any:
        self.prompts.append(prompt)
        output = self.outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        return output


def test_an_object_that_answers() -> None:
    call = ToolCall(name="sound", arguments={"at": "lock"}, id="c1")
    target = ScriptedTarget(
        Output(text="Nine metres.", cost_usd=0.25),
        Output(text="", tool_calls=(call,)),
        ValueError("odd"),
        None,
    )
    with ChatClient.over(target) as client:
        assert repr(client) == "ChatClient(ScriptedTarget)"
        assert client.chat(USER)["proctor"]["cost_usd"] == 0.25
        assert client.chat(USER)["choices"][0]["message"]["tool_calls"] == [
            {"id": "c1", "type": "function", "function": {"name": "sound", "arguments": '{"at":"lock"}'}}
        ]
        for complaint in ("ValueError: odd", "cannot be read"):
            with pytest.raises(TargetError, match=complaint):
                client.chat(USER)
        assert client.totals()["cost_usd"] == 0.25
    assert [prompt.repeat for prompt in target.prompts] == [0, 1, 2, 3]
    assert target.prompts[0].temperature is None


def test_a_target_that_asks_its_own_client_does_not_wait_for_ever() -> None:
    class SelfAsking:
        async def answer(self, _: Prompt) -> Output:
            return Output(text=client("How deep?"))

    with (
        ChatClient.over(SelfAsking()) as client,
        pytest.raises(UsageError, match="cannot wait for the client that called it"),
    ):
        client("How deep?")


def test_a_script_answers_by_what_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"*deep*": ["Nine metres.", "9 m"], "wide": "Four."}\n', encoding="utf-8")
    with ChatClient.over(f"scripted:{script}") as client:
        assert [client("How deep?") for _ in range(3)] == ["Nine metres.", "9 m", "Nine metres."]
        reply = client.chat(USER, case_id="wide", max_tokens=5)
        assert reply["choices"][0]["message"]["content"] == "Four."
        with pytest.raises(TargetError, match=r"No key of .* matches case 'How long"):
            client("How long?")


def test_a_target_by_its_specification() -> None:
    with ChatClient.over(TargetSpec(name="e", kind="echo")) as client:
        assert client("How deep?") == "How deep?"


def test_a_target_of_the_targets_file(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.add_reply("Nine metres.")
    (tmp_path / "targets.yaml").write_text(
        f"targets:\n  - name: lock\n    provider: openai\n    base_url: {endpoint.url}\n"
        "    model: deep\n    api_key: ${{ LOCK_KEY }}\n    temperature: 0.7\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SuiteError, UsageError), match="LOCK_KEY"), ChatClient.over("lock") as client:
        client("How deep?")
    monkeypatch.setenv("LOCK_KEY", KEY)
    with ChatClient.over("lock") as client:
        assert client("How deep?") == "Nine metres."
        client.chat(USER, temperature=0.0, max_tokens=3)
    assert [request["temperature"] for request in endpoint.requests] == [0.7, 0.0]
    assert [request.get("max_tokens") for request in endpoint.requests] == [None, 3]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_what_is_no_target() -> None:
    with pytest.raises(UnknownName, match="Unknown target"):
        ChatClient.over("nobody")
    with pytest.raises(TypeError, match="A value of type int is not a target"):
        ChatClient.over(4)


@pytest.mark.slow
def test_a_long_pause_is_told(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.add_error(429, "Slow down.", retry_after="30")
    client = ChatClient(endpoint.url, "deep")
    with caplog.at_level(logging.WARNING, logger="proctor"), ThreadPoolExecutor(1) as pool:
        call = pool.submit(client, "How deep is the lock?")
        wait_until(lambda: caplog.messages)
        client.close()
        with pytest.raises(UsageError):
            call.result(PATIENCE_S)
    assert caplog.messages == ["The endpoint says to retry after 30 s. Waiting."]
