"""Services on loopback with the batch APIs of OpenAI, Anthropic and Google, which check what they get."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from itertools import count
from threading import Event, Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.endpoints import serve_in_thread

KEY = "sk-a-secret-of-some-length"
KINDS = ("openai", "anthropic", "google")
MODEL = "m"
USAGE = (100, 20)
"""The tokens of each request and of each answer."""
_IDS = {
    "openai": re.compile(r"p\d+-r\d+"),
    "anthropic": re.compile(r"p\d+-r\d+-[0-9a-f]{12}"),
    "google": re.compile(r"p\d+-r\d+"),
}


class ServedBatch:
    """A batch as its service has it."""

    def __init__(self, number: int, name: str, requests: dict[str, Any]) -> None:
        self.id = f"batch_{number}"
        self.name = name
        self.requests = requests
        self.created_at = datetime.now(UTC)
        self.polls = 0


class BatchHost:
    """The three services; the attributes say how they behave."""

    def __init__(self) -> None:
        self.url = ""
        self.batches: list[ServedBatch] = []
        self.problems: list[str] = []
        """The fields of requests that are not as they are documented."""
        self.calls: list[str] = []
        """The method and path of each request."""
        self.answer: Callable[[str, Any], Any] = lambda _custom_id, body: last_text(body)
        """Returns the answer to a request: a text, an `Outcome`, or None for no line at all."""
        self.polls_until_ended = 0
        self.is_released = Event()
        """Set for batches that end."""
        self.is_released.set()
        self.arrange: Callable[[list[Any]], list[Any]] = lambda lines: lines
        """Changes the lines of a list of results: their order, and how often each comes."""
        self.before_accepting: Callable[[], None] = lambda: None
        self.after_accepting: Callable[[], None] = lambda: None
        self.count_bytes: Callable[[int], None] = lambda _size: None
        """Called with the size of each body."""
        self.failures: list[int] = []
        """The statuses with which the next requests are answered; 0 for the usual reply."""
        self.path = "/v1/chat/completions"
        """The path of the requests in OpenAI's batches."""
        self.expects_single_requests = False
        """Whether requests outside of batches are no problem; they are not answered."""
        self.is_garbled = False
        """Whether the reply to the next batch that is accepted cannot be read."""
        self.has_keys = True
        """Whether Google's replies have the keys of their requests."""
        self.end_state = ""
        """The state in which OpenAI's and Google's batches end, if it is not the usual one."""
        self.end_reason = "The file is wrong."
        """Why OpenAI says that a batch failed."""
        self.content_failures: list[int] = []
        """The statuses with which the next requests for OpenAI's answers are answered."""
        self.garbage: dict[str, list[bytes]] = {}
        """By method, what the next requests are answered with, whatever they ask for."""
        self.files: dict[str, dict[str, Any]] = {}
        self.lock = Lock()
        self.numbers = count(1)

    @property
    def custom_ids(self) -> list[str]:
        """The custom ids of all requests of all batches, without the tags of Anthropic's."""
        return [
            re.sub(r"-[0-9a-f]{12}$", "", custom_id) for batch in self.batches for custom_id in batch.requests
        ]

    def target(self, kind: str, model: str = MODEL) -> str:
        """The word for a target at this host."""
        return f"{kind}:{model}@{self.url}{'/v1' if kind == 'openai' else ''}"

    def require(self, is_right: bool, problem: str) -> None:
        """Notes a problem unless something is right."""
        if not is_right:
            self.problems.append(problem)

    def accept(self, kind: str, name: str, requests: dict[str, Any]) -> ServedBatch:
        """Takes a batch in."""
        self.require(bool(requests), "a batch has no requests")
        for custom_id in requests:
            self.require(_IDS[kind].fullmatch(custom_id) is not None, f"custom id {custom_id!r}")
        self.before_accepting()
        with self.lock:
            batch = ServedBatch(next(self.numbers), name, requests)
            self.batches.append(batch)
        self.after_accepting()
        return batch

    def find(self, batch_id: str) -> ServedBatch | None:
        """Returns a batch by its id."""
        return next((batch for batch in self.batches if batch.id == batch_id), None)

    def has_ended(self, batch: ServedBatch) -> bool:
        """Whether a batch has ended."""
        return self.is_released.is_set() and batch.polls > self.polls_until_ended


class Outcome:
    """How a request of a batch ends without an answer: `refused` with an error, `expired` or `cancelled`."""

    def __init__(
        self, state: str, status: int = 400, message: str = "This is wrong.", param: str = ""
    ) -> None:
        self.state = state
        self.status = status
        self.message = message
        self.param = param


def last_text(body: Any) -> str:
    """The last message of a request of any of the three services."""
    if "contents" in body:
        return str(body["contents"][-1]["parts"][0]["text"])
    content = body["input" if "input" in body else "messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


@contextmanager
def serve_batches() -> Iterator[BatchHost]:
    """A host of the three services, in a thread of its own."""
    host = BatchHost()

    class Handler(_Handler):
        pass

    Handler.host = host
    with serve_in_thread(Handler) as server:
        host.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield host
        finally:
            host.is_released.set()


class _Handler(BaseHTTPRequestHandler):
    host: BatchHost

    def log_message(self, *_: Any) -> None:
        """Nothing goes to stderr."""

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.host.count_bytes(len(body))
        self._handle(body)

    def _handle(self, body: bytes) -> None:
        host, parts = self.host, urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        host.calls.append(f"{self.command} {parts.path}")
        if host.failures and (status := host.failures.pop(0)):
            return self._send({"error": {"message": "try again"}}, status)
        if host.content_failures and parts.path.endswith("/content"):
            return self._send({"error": {"message": "try again"}}, host.content_failures.pop(0))
        if bodies := host.garbage.get(self.command):
            return self._send(bodies.pop(0))
        try:
            for kind, routes in _ROUTES.items():
                for method, pattern, handle in routes:
                    if method == self.command and (match := re.fullmatch(pattern, parts.path)):
                        self._check_headers(kind, handle)
                        return handle(self, body, *match.groups())
        except (KeyError, ValueError, TypeError) as error:
            host.problems.append(f"{self.path}: {type(error).__name__}: {error}")
            return self._send({"error": {"message": "not as documented"}}, 400)
        if not host.expects_single_requests:
            host.problems.append(f"no route: {self.command} {self.path}")
        return self._send({"error": {"message": "no such path"}}, 404)

    def _check_headers(self, kind: str, handle: Callable[..., None]) -> None:
        headers, host = self.headers, self.host
        names = {"openai": "Authorization", "anthropic": "x-api-key", "google": "x-goog-api-key"}
        host.require((headers[names[kind]] or "").removeprefix("Bearer ") == KEY, f"{kind}: key")
        if kind == "anthropic":
            host.require(headers["anthropic-version"] == "2023-06-01", "anthropic-version")
        if self.command == "POST":
            usual = "multipart/form-data" if handle is _upload else "application/json"
            host.require(headers.get_content_type() == usual, f"{self.path}: Content-Type")

    def _send(self, body: Any, status: int = 200) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self.host.is_garbled and self.command == "POST" and not self.path.endswith("/files"):
            self.host.is_garbled, data = False, b"<html>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# --- OpenAI ------------------------------------------------------------------------------------------------

_FIELDS = {
    "/v1/chat/completions": {
        *("model", "messages", "temperature", "seed", "max_tokens", "max_completion_tokens"),
    },
    "/v1/responses": {"model", "input", "temperature", "max_output_tokens", "store", "include"},
}
"""The fields of requests, by the path of the interface."""


def _upload(handler: _Handler, body: bytes) -> None:
    head = f"Content-Type: {handler.headers['Content-Type']}\r\n\r\n".encode()
    form = message_from_bytes(head + body)
    forms: list[Any] = [part for part in form.walk() if part is not form]
    parts = {part.get_param("name", header="Content-Disposition"): part for part in forms}
    host = handler.host
    host.require(set(parts) == {"purpose", "file"}, f"fields of an upload: {sorted(map(str, parts))}")
    host.require(parts["purpose"].get_payload(decode=True) == b"batch", "purpose")
    host.require(str(parts["file"].get_filename()).endswith(".jsonl"), "file name")
    requests: dict[str, Any] = {}
    for line in parts["file"].get_payload(decode=True).splitlines():
        row = json.loads(line)
        host.require(set(row) == {"custom_id", "method", "url", "body"}, f"fields of a line: {sorted(row)}")
        host.require((row["method"], row["url"]) == ("POST", host.path), "method and url")
        host.require(set(row["body"]) <= _FIELDS[host.path], f"fields of a body: {sorted(row['body'])}")
        host.require(row["body"]["model"] == MODEL, "model")
        host.require(row["custom_id"] not in requests, f"{row['custom_id']} comes twice")
        requests[row["custom_id"]] = row["body"]
    file_id = f"file-{len(host.files) + 1}"
    host.files[file_id] = requests
    handler._send({"id": file_id, "object": "file", "purpose": "batch"})


def _create(handler: _Handler, body: bytes) -> None:
    host, fields = handler.host, json.loads(body)
    names = {"input_file_id", "endpoint", "completion_window", "metadata"}
    host.require(set(fields) == names, f"fields of a batch: {sorted(fields)}")
    host.require(fields["endpoint"] == host.path, "endpoint")
    host.require(fields["completion_window"] == "24h", "completion_window")
    (name,) = fields["metadata"].values()
    batch = host.accept("openai", name, host.files[fields["input_file_id"]])
    handler._send(_openai_batch(host, batch, fields["metadata"]))


def _openai_batch(host: BatchHost, batch: ServedBatch, metadata: Any = None) -> dict[str, Any]:
    has_ended = host.has_ended(batch)
    state = (host.end_state or "completed") if has_ended else "in_progress"
    files = {"output_file_id": f"out-{batch.id}", "error_file_id": f"err-{batch.id}"} if has_ended else {}
    errors = {"data": [{"code": "bad", "message": host.end_reason}]} if state == "failed" else None
    return {
        "id": batch.id,
        "object": "batch",
        "status": state,
        "created_at": int(batch.created_at.timestamp()),
        "request_counts": {"total": len(batch.requests), "completed": int(has_ended), "failed": 0},
        "metadata": metadata or {"proctor_batch": batch.name},
        "errors": errors,
        **({} if state == "failed" else files),
    }


def _openai_poll(handler: _Handler, _body: bytes, batch_id: str) -> None:
    batch = handler.host.find(batch_id)
    if batch is None:
        return handler._send({"error": {"message": "No such batch."}}, 404)
    batch.polls += 1
    return handler._send(_openai_batch(handler.host, batch))


def _openai_list(handler: _Handler, _body: bytes) -> None:
    host = handler.host
    page, has_more = _page(host, handler.query.get("after"), int(handler.query["limit"]))
    handler._send({"data": [_openai_batch(host, batch) for batch in page], "has_more": has_more})


def _openai_reply(path: str, answer: str) -> dict[str, Any]:
    if path == "/v1/responses":
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        return {
            "model": f"{MODEL}-1",
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": content}],
            "usage": {"input_tokens": USAGE[0], "output_tokens": USAGE[1]},
        }
    return {
        "model": f"{MODEL}-1",
        "choices": [{"message": {"content": answer}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]},
    }


def _openai_content(handler: _Handler, _body: bytes, kind: str, batch_id: str) -> None:
    host, lines = handler.host, []
    batch = host.find(batch_id)
    assert batch is not None
    for custom_id, body in batch.requests.items():
        answer = host.answer(custom_id, body)
        if answer is None or (kind == "out") != isinstance(answer, str):
            continue
        row: dict[str, Any] = {
            "id": f"r-{custom_id}",
            "custom_id": custom_id,
            "error": None,
            "response": None,
        }
        if isinstance(answer, str):
            reply = _openai_reply(host.path, answer)
            row["response"] = {"status_code": 200, "request_id": "req-1", "body": reply}
        elif answer.state == "refused":
            error = {"message": answer.message, "param": answer.param or None}
            row["response"] = {"status_code": answer.status, "request_id": "r", "body": {"error": error}}
        else:
            row["error"] = {"code": f"batch_{answer.state}", "message": f"It was {answer.state}."}
        lines.append(row)
    handler._send(_as_lines(host.arrange(lines)))


# --- Anthropic ---------------------------------------------------------------------------------------------


def _anthropic_create(handler: _Handler, body: bytes) -> None:
    host, fields = handler.host, json.loads(body)
    host.require(set(fields) == {"requests"}, f"fields of a batch: {sorted(fields)}")
    requests: dict[str, Any] = {}
    for row in fields["requests"]:
        host.require(set(row) == {"custom_id", "params"}, f"fields of an item: {sorted(row)}")
        host.require({"model", "max_tokens", "messages"} <= set(row["params"]), "params")
        host.require(row["custom_id"] not in requests, f"{row['custom_id']} comes twice")
        requests[row["custom_id"]] = row["params"]
    batch = host.accept("anthropic", "", requests)
    handler._send(_anthropic_batch(host, batch))


def _anthropic_batch(host: BatchHost, batch: ServedBatch) -> dict[str, Any]:
    has_ended, size = host.has_ended(batch), len(batch.requests)
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if has_ended else "processing"] = size
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if has_ended else "in_progress",
        "request_counts": counts,
        "created_at": batch.created_at.isoformat(),
        "results_url": "https://elsewhere.invalid/results" if has_ended else None,
    }


def _anthropic_poll(handler: _Handler, _body: bytes, batch_id: str) -> None:
    batch = handler.host.find(batch_id)
    assert batch is not None
    batch.polls += 1
    handler._send(_anthropic_batch(handler.host, batch))


def _anthropic_list(handler: _Handler, _body: bytes) -> None:
    host = handler.host
    for batch in host.batches:
        batch.polls += 1
    page, has_more = _page(host, handler.query.get("after_id"), int(handler.query["limit"]))
    handler._send({"data": [_anthropic_batch(host, batch) for batch in page], "has_more": has_more})


def _anthropic_results(handler: _Handler, _body: bytes, batch_id: str) -> None:
    host, lines = handler.host, []
    batch = host.find(batch_id)
    assert batch is not None
    for custom_id, params in batch.requests.items():
        answer = host.answer(custom_id, params)
        if answer is None:
            continue
        if isinstance(answer, str):
            message = {
                "content": [{"type": "text", "text": answer}],
                "model": f"{MODEL}-1",
                "stop_reason": "end_turn",
                "usage": {"input_tokens": USAGE[0], "output_tokens": USAGE[1]},
            }
            result = {"type": "succeeded", "message": message}
        elif answer.state == "refused":
            error = {"type": "invalid_request_error", "message": answer.message}
            result = {"type": "errored", "error": {"type": "error", "error": error}}
        else:
            result = {"type": {"cancelled": "canceled"}.get(answer.state, answer.state)}
        lines.append({"custom_id": custom_id, "result": result})
    handler._send(_as_lines(host.arrange(lines)))


# --- Google ------------------------------------------------------------------------------------------------


def _google_create(handler: _Handler, body: bytes, model: str) -> None:
    host, fields = handler.host, json.loads(body)
    host.require(model == MODEL, "model")
    host.require(set(fields) == {"batch"}, f"fields of a request: {sorted(fields)}")
    batch = fields["batch"]
    host.require(set(batch) == {"displayName", "inputConfig"}, f"fields of a batch: {sorted(batch)}")
    requests: dict[str, Any] = {}
    for row in batch["inputConfig"]["requests"]["requests"]:
        host.require(set(row) == {"request", "metadata"}, f"fields of an item: {sorted(row)}")
        host.require(set(row["metadata"]) == {"key"}, "metadata")
        host.require("contents" in row["request"], "contents")
        requests[row["metadata"]["key"]] = row["request"]
    handler._send(_google_operation(host, host.accept("google", batch["displayName"], requests)))


def _google_operation(host: BatchHost, batch: ServedBatch) -> dict[str, Any]:
    has_ended = host.has_ended(batch)
    state = f"BATCH_STATE_{host.end_state.upper() or 'SUCCEEDED'}" if has_ended else "BATCH_STATE_RUNNING"
    operation: dict[str, Any] = {
        "name": f"batches/{batch.id}",
        "done": has_ended,
        "metadata": {
            "state": state,
            "displayName": batch.name,
            "createTime": batch.created_at.isoformat(),
            "batchStats": {"requestCount": str(len(batch.requests)), "successfulRequestCount": "0"},
        },
    }
    if has_ended and host.end_state:
        return operation | {"error": {"code": 1, "message": "The batch is no more."}}
    if has_ended:
        replies = [_google_reply(host, custom_id, body) for custom_id, body in batch.requests.items()]
        replies = host.arrange([reply for reply in replies if reply is not None])
        operation["response"] = {"inlinedResponses": {"inlinedResponses": replies}}
    return operation


def _google_reply(host: BatchHost, custom_id: str, body: Any) -> Any:
    answer = host.answer(custom_id, body)
    metadata = {"metadata": {"key": custom_id}} if host.has_keys else {}
    if answer is None:
        return None
    if not isinstance(answer, str):
        code, message = (3, answer.message) if answer.state == "refused" else (1, f"It was {answer.state}.")
        return {"error": {"code": code, "message": message}, **metadata}
    content = {"parts": [{"text": answer}]}
    usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1]}
    reply = {"candidates": [{"content": content}], "usageMetadata": usage, "modelVersion": f"{MODEL}-1"}
    return {"response": reply, **metadata}


def _google_poll(handler: _Handler, _body: bytes, batch_id: str) -> None:
    batch = handler.host.find(batch_id)
    assert batch is not None
    batch.polls += 1
    handler._send(_google_operation(handler.host, batch))


def _google_list(handler: _Handler, _body: bytes) -> None:
    host = handler.host
    page, has_more = _page(host, handler.query.get("pageToken"), int(handler.query["pageSize"]))
    more = {"nextPageToken": page[-1].id} if has_more else {}
    handler._send({"operations": [_google_operation(host, batch) for batch in page], **more})


def _page(host: BatchHost, after: str | None, size: int) -> tuple[list[ServedBatch], bool]:
    """Returns a page of the list of batches, newest first, and whether there are more."""
    newest = host.batches[::-1]
    start = next((place + 1 for place, batch in enumerate(newest) if batch.id == after), 0)
    return newest[start : start + size], len(newest) > start + size


def _as_lines(rows: list[Any]) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


_ROUTES: dict[str, list[tuple[str, str, Callable[..., None]]]] = {
    "anthropic": [
        ("POST", "/v1/messages/batches", _anthropic_create),
        ("GET", "/v1/messages/batches", _anthropic_list),
        ("GET", "/v1/messages/batches/([^/]+)", _anthropic_poll),
        ("GET", "/v1/messages/batches/([^/]+)/results", _anthropic_results),
    ],
    "openai": [
        ("POST", "/v1/files", _upload),
        ("POST", "/v1/batches", _create),
        ("GET", "/v1/batches", _openai_list),
        ("GET", "/v1/batches/([^/]+)", _openai_poll),
        ("GET", "/v1/files/(out|err)-([^/]+)/content", _openai_content),
    ],
    "google": [
        ("POST", "/v1beta/models/([^/:]+):batchGenerateContent", _google_create),
        ("GET", "/v1beta/batches", _google_list),
        ("GET", "/v1beta/batches/([^/]+)", _google_poll),
    ],
}
