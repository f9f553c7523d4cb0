"""Sends JSON requests to an HTTP endpoint and turns every failure into a `TargetError`.

Handles statuses, `Retry-After`, TLS and keys, but not the meaning of the JSON. Retries, rate limits and time
limits are up to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from yarl import URL

from proctor.env_substitution import names_in
from proctor.errors import AnswerTooLarge, EndpointFault, TargetError, UsageError
from proctor.model import TargetSpec
from proctor.targets import get_kind, iter_address_kinds
from proctor.targets.api.event_stream import UNREADABLE_JSON, EventParser, StreamedReply
from proctor.targets.api.quota_headers import QuotaObserver, parse_pause_s
from proctor.targets.context import TargetContext
from proctor.targets.key_redaction import MIN_KEY_LENGTH, REPLACEMENT, KeyRedactor, find_secrets
from proctor.targets.transport.protocol import (
    ConnectError,
    ProxyError,
    RequestHead,
    Response,
    TlsError,
    TransportError,
)

T = TypeVar("T")
Body = bytes | bytearray
Sign = Callable[[URL, bytes], Awaitable[Mapping[str, str]]]
"""Returns the headers that sign one request, which is about to be sent, by its URL and body."""

_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_BUSY_STATUSES = frozenset({429, 503, 529})
_REMEDIES = {
    401: "Check the key.",
    402: "Check the balance of the account.",
    403: "Check the key and its permissions, or the headers that a gateway needs.",
    404: "Check the model name and the URL.",
    405: "Check the URL.",
    407: "Check the password of the proxy.",
    410: "Check the model name and the URL.",
}
"""Statuses that every request gets until the user fixes something, with the fix."""
_NO_CREDIT_PATTERN = re.compile(r"insufficient_quota|billing_hard_limit")
_WRONG_KEY_PATTERN = re.compile(r"API_KEY_INVALID|API key not valid")
"""Google reports a wrong key with status 400 instead of 401."""
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
_STREAM_OVERHEAD = 256
"""How many times as large as its answer a stream may be: an event holds a token and much besides."""
_EVENT_OVERHEAD = 4
"""How many times as large as an answer one event may be: characters may be escaped."""
_MAX_QUOTE = 300
_MAX_HEADER = 1_000
"""The maximum length of a header, in characters; the rest is ignored."""
_MAX_UNRESERVED_BYTES = 2**20
"""Up to this size a body is read without a reservation."""
_MAX_ERROR_BYTES = 2**16
"""How many bytes of an error reply are read; the reason is at the beginning."""


class RefusedRequest(TargetError):
    """The endpoint rejected a request as invalid (400 or 422); `param` is the invalid field, if reported."""

    def __init__(self, message: str, *, text: str, param: str | None) -> None:
        super().__init__(message)
        self.text = text
        self.param = param

    def find_parameter(self, optional: tuple[str, ...]) -> str | None:
        """Returns the first of these parameters that the endpoint's message is about."""
        if self.param:
            parts = re.split(r"[.\[\]]", self.param)
            return next((parameter for parameter in optional if parameter in parts), None)
        return next(
            (parameter for parameter in optional if re.search(rf"\b{re.escape(parameter)}\b", self.text)),
            None,
        )


class JsonReply(Struct, frozen=True, gc=False):
    """A successful reply with its times in milliseconds, from sending the request."""

    body: Body
    latency_ms: float
    first_token_ms: float | None = None
    """None if it was not streamed, or brought no token."""
    request_id: str | None = None
    """The id of the request in its headers."""


class JsonEndpoint:
    """A URL for JSON requests; parameters that it refused before are left out."""

    def __init__(
        self,
        context: TargetContext,
        url: URL,
        headers: Mapping[str, str],
        *,
        sign: Sign | None = None,
        stream_url: URL | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        """Sends nothing.

        Args:
            context: has the transports and the environment.
            url: the address of requests.
            headers: the headers of each request, with the key.
            sign: returns the further headers of each request; None if there are none.
            stream_url: the address of requests whose replies are streamed, if they have another.
            secrets: what no answer and no error may contain, besides the keys in headers.
        """
        self._transport = context.get_transport(proxy_for(url, context.environ))
        self._url = url
        self._headers = {"Content-Type": "application/json", **headers}
        self._head = RequestHead("POST", url, self._headers)
        self._stream_head = _make_stream_head(stream_url or url, self._headers)
        self._sign = sign
        self._own_secrets = tuple(secrets)
        self._secrets = self._secrets_in(self._headers)
        """The secrets of the latest request, with its signature."""
        self.redact_keys = KeyRedactor(self._secrets).redact_output
        """Removes the keys of this endpoint from an output, in case the endpoint echoes one."""
        self._max_bytes = context.max_answer_bytes
        self._max_whole_bytes = min(self._max_bytes, _MAX_UNRESERVED_BYTES)
        self._large_answer_limit = context.large_answer_limit
        self._quota_observer = None if context.observe is None else QuotaObserver(context.observe)
        self.refused_names: frozenset[str] = frozenset()

    @property
    def url(self) -> URL:
        """The address of its requests."""
        return self._url

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of its requests, with the key."""
        return self._headers

    @property
    def secrets(self) -> Iterable[str]:
        """What no answer and no error may contain."""
        return self._secrets

    async def send(
        self,
        encode: Callable[[frozenset[str]], bytes],
        optional: tuple[str, ...],
        open_stream: Callable[[], StreamedReply] | None = None,
    ) -> JsonReply:
        """Returns the reply to a request.

        If the endpoint refuses a parameter in `optional`, the request is sent again without it. The refusal
        is remembered only if that succeeds, as a message may contain the name by chance.

        Args:
            encode: encodes the body without the parameters in the given set.
            optional: the parameters that may be left out, by the endpoint's names.
            open_stream: makes what puts the events of a streamed reply together; None if none is requested.

        Raises:
            TargetError: a status other than 2xx, or no connection; its fields say whether to retry.
        """
        refused_names = self.refused_names
        body = encode(refused_names)
        while True:
            try:
                reply = await self._send_once(body, open_stream)
            except RefusedRequest as error:
                name = error.find_parameter(optional)
                if name is None or name in refused_names:
                    raise
                refused_names |= {name}
                shorter = encode(refused_names)
                if shorter == body:
                    raise
                body = shorter
                continue
            if refused_names is not self.refused_names:
                self.refused_names |= refused_names
            return reply

    async def _send_once(self, body: bytes, open_stream: Callable[[], StreamedReply] | None) -> JsonReply:
        """Returns a 2xx reply; redirects are not followed, as they would leak the key."""
        head = self._head if open_stream is None else self._stream_head
        if self._sign is not None:
            head = await self._signed_head(self._sign, head.url, body, is_stream=open_stream is not None)
        started = perf_counter()
        first_token_at = None
        try:
            response = await self._transport.send(head, body)
            status = response.status
            is_plain = open_stream is None and 200 <= status < 300
            reply = response.take_body(self._max_whole_bytes) if is_plain else None
            if reply is None:
                reply, first_token_at = await self._read_reply(response, open_stream)
        except TransportError as error:
            raise self.redact_error(_connection_error(head.url, error, self._secrets)) from error
        if self._quota_observer is not None and not self._quota_observer.is_silent:
            self._quota_observer(response.headers)
        if 200 <= status < 300:
            latency_ms = (perf_counter() - started) * 1000
            first_token_ms = None if first_token_at is None else (first_token_at - started) * 1000
            return JsonReply(reply, latency_ms, first_token_ms, _read_request_id(response))
        raise self.redact_error(error_for_status(head.url, status, reply, response.headers, self._secrets))

    async def _read_reply(
        self, response: Response, open_stream: Callable[[], StreamedReply] | None
    ) -> tuple[Body, float | None]:
        """Returns the body of a reply, and when the first token of a streamed one arrived."""
        try:
            if open_stream is not None and _is_event_stream(response):
                return await self._read_events(response, open_stream())
            return await self._read_body(response), None
        except BaseException:
            response.close()
            raise

    async def _signed_head(self, sign: Sign, url: URL, body: bytes, *, is_stream: bool) -> RequestHead:
        """Returns the head of a request; a signature counts for this body and a few minutes only."""
        headers = {**self._headers, **await sign(url, body)}
        self._secrets = self._secrets_in(headers)
        self.redact_keys = KeyRedactor(self._secrets).redact_output
        return _make_stream_head(url, headers) if is_stream else RequestHead("POST", url, headers)

    def _secrets_in(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        return (*find_secrets(headers), *self._own_secrets)

    async def _read_body(self, response: Response) -> Body:
        """Returns the whole body of a reply, decompressed; only the first bytes of an error.

        Large bodies wait for each other, so that memory does not hold one for each connection.

        Raises:
            AnswerTooLarge: it exceeds the limit for answers.
        """
        if not 200 <= response.status < 300:
            body = await _read_prefix(response, _MAX_ERROR_BYTES)
            response.close()  # has no effect if the reply was read to its end
            return body[:_MAX_ERROR_BYTES]
        limit = self._max_bytes
        size = response.size
        if size is not None and size > limit:
            raise AnswerTooLarge(limit, size)
        if size is not None and size <= _MAX_UNRESERVED_BYTES:
            return await response.read()
        body = (
            bytearray()
            if size is not None
            else await _read_prefix(response, min(_MAX_UNRESERVED_BYTES, limit + 1))
        )
        if len(body) > limit:
            raise AnswerTooLarge(limit)
        if size is None and response.is_read:
            return body
        async with self._large_answer_limit.reserve(size or limit):
            async for piece in response.pieces():
                body += piece
                if len(body) > limit:
                    raise AnswerTooLarge(limit)
        return body

    async def _read_events(self, response: Response, stream: StreamedReply) -> tuple[Body, float | None]:
        """Returns the body that the events of a stream add up to, and when the first token arrived.

        Raises:
            AnswerTooLarge: the events exceed the limit for answers.
            TargetError: the stream was cut off, or is not made of JSON objects.
        """
        limit = self._max_bytes
        parser, size, next_check = EventParser(), 0, limit
        first_token_at: float | None = None
        async for piece in response.pieces():
            size += len(piece)
            if size > limit * _STREAM_OVERHEAD or parser.pending_bytes > limit * _EVENT_OVERHEAD:
                raise AnswerTooLarge(limit)
            if size > next_check:  # a few times for large streams only: it puts the answer together
                length = len(stream.body())
                if length > limit:
                    raise AnswerTooLarge(limit)
                next_check = size + max(limit - length, limit // 8)
            for event in parser.feed(piece):
                if stream.add(event) and first_token_at is None:
                    first_token_at = perf_counter()
        body = stream.body()
        if len(body) > limit:
            raise AnswerTooLarge(limit, len(body))
        if not (stream.is_complete or parser.is_done):
            raise TargetError(
                f"{_display_url(self._url)} ended the stream before the answer was complete.",
                kind="connection",
                transient=True,
                fault=EndpointFault.SERVER,
                remedy="Check the server, or run without --stream.",
            )
        return body, first_token_at

    def decode(self, decoder: msgspec.json.Decoder[T], data: Body) -> T:
        """Decodes a reply.

        Raises:
            TargetError: it has another shape. Not transient: the body arrived completely, as it would again.
        """
        try:
            return decoder.decode(data)
        except UNREADABLE_JSON as error:
            start = _shorten(_redact_text(data.decode("utf-8", "replace"), self._secrets))
            raise TargetError(
                f"{_display_url(self._url)} did not answer with the expected JSON ({error}): {start!r}.",
                kind="protocol",
            ) from error

    def error_in_reply(self, status: int, data: Body) -> TargetError:
        """Returns the error inside a reply of status 200, by the status in its body."""
        return error_for_status(self._url, status, data, {}, self._secrets)

    def redact_error(self, error: TargetError) -> TargetError:
        """Removes keys from the whole text of an error: one may come back in an address or a header."""
        error.args = (_redact_text(str(error), self._secrets),)
        return error


def _make_stream_head(url: URL, headers: Mapping[str, str]) -> RequestHead:
    if url.scheme == "http":
        # llama.cpp announces that it keeps the connection, and ends it after a stream.
        headers = {**headers, "Connection": "close"}
    return RequestHead("POST", url, headers)


def _is_event_stream(response: Response) -> bool:
    media_type, _, _ = response.headers.get("Content-Type", "").partition(";")
    return 200 <= response.status < 300 and media_type.strip().lower() == "text/event-stream"


def _read_request_id(response: Response) -> str | None:
    value = response.find_header(_REQUEST_ID_HEADERS)
    return None if value is None else _replace_invalid(value)[:_MAX_HEADER] or None


def _read_header(headers: Mapping[str, str], name: str, default: str) -> str:
    """Returns the value of a header; bytes in it that are not UTF-8 become replacement characters."""
    return _replace_invalid(headers.get(name, default))


def _replace_invalid(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _read_prefix(response: Response, count: int) -> bytearray:
    """Returns at least the first `count` bytes of the body, to the end of a chunk, or all of it."""
    body = bytearray()
    async for piece in response.pieces():
        body += piece
        if len(body) >= count:
            break
    return body


def _connection_error(url: URL, error: TransportError, secrets: Iterable[str]) -> TargetError:
    """Returns the error for a request without a reply."""
    why = _shorten(str(error))
    if isinstance(error, TlsError):
        return TargetError(
            f"Cannot open an encrypted connection to {_display_url(url)}: {why}.",
            kind="connection",
            fault=EndpointFault.PERMANENT,
            remedy="Check the URL and its certificate.",
        )
    if isinstance(error, ProxyError):
        return error_for_status(url, error.status, b"the proxy refused it", {}, secrets)
    if isinstance(error, ConnectError):
        return TargetError(
            f"Cannot connect to {_display_url(url)}: {why}. Is a server listening there?",
            kind="connection",
            transient=True,
            fault=EndpointFault.UNREACHABLE,
            remedy="Check the URL and that the server is running.",
        )
    return TargetError(
        f"No answer from {_display_url(url)}: {why}.",
        kind="connection",
        transient=True,
        fault=EndpointFault.SERVER,
        remedy="Check the server.",
    )


def error_for_status(
    url: URL, status: int, body: Body, reply_headers: Mapping[str, str], secrets: Iterable[str]
) -> TargetError:
    """Returns the error for an unsuccessful reply, without the secrets of the request."""
    text, param = _read_error(body)
    text = _redact_text(text, secrets)
    if 300 <= status < 400:
        text = f"it points to {_read_header(reply_headers, 'Location', 'nowhere')}, which is not followed"
    from http import HTTPStatus

    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "unknown status"
    message = f"{_display_url(url)} answered {status} ({phrase})" + (f": {_shorten(text)}" if text else ".")
    kind, remedy = _classify_status(status, body)
    wait_s = parse_retry_after(reply_headers)
    if wait_s is None and kind is EndpointFault.THROTTLED:
        wait_s = parse_pause_s(reply_headers)
    if status in {400, 422} and kind is None:
        return RefusedRequest(message, text=text, param=param)
    return TargetError(
        message,
        transient=kind is not EndpointFault.PERMANENT and (status in _TRANSIENT_STATUSES or status >= 500),
        busy=status in _BUSY_STATUSES,
        retry_after_s=wait_s,
        fault=kind,
        remedy=remedy,
    )


def _classify_status(status: int, body: bytes | bytearray) -> tuple[EndpointFault | None, str]:
    """Returns what a status says about the endpoint, and what to do about it."""
    if status == 400 and _WRONG_KEY_PATTERN.search(body.decode("utf-8", "replace")):
        status = 401
    if 300 <= status < 400:
        return EndpointFault.PERMANENT, "Check the URL."
    if status in _REMEDIES:
        return EndpointFault.PERMANENT, _REMEDIES[status]
    if status == 429:
        if _NO_CREDIT_PATTERN.search(body.decode("utf-8", "replace")):
            return EndpointFault.PERMANENT, "Check the balance of the account."
        return EndpointFault.THROTTLED, "Lower --concurrency, or request a higher rate limit."
    return (EndpointFault.SERVER, "Check the server, or try again later.") if status >= 500 else (None, "")


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the requested waiting time in seconds, at least 0; None if there is none.

    A number too large for a float is `inf`. A date is compared with the reply's own `Date`, as clocks may
    differ; it may have any of the three forms in RFC 9110, section 5.6.7. Source: RFC 9110, section 10.2.3.
    """
    value = headers.get("Retry-After", "").strip()[:_MAX_HEADER]
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?", value):
        return max(float(value), 0.0)
    until = _parse_date(value)
    if until is None:
        return None
    now = _parse_date(headers.get("Date", "")[:_MAX_HEADER]) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _parse_date(value: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(value)
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def address_for(spec: TargetSpec) -> str:
    """Returns the base URL of a target: its own, else the default of its kind.

    Raises:
        UsageError: there is neither.
    """
    endpoint = spec.endpoint or get_kind(spec).address
    if endpoint is None:
        raise UsageError(f"Target {spec.name!r} needs a URL. Write {spec.kind}:MODEL@URL.")
    return endpoint


def key_for_target(spec: TargetSpec, endpoint: str, context: TargetContext) -> str | None:
    """Returns the key of a target: from the variable in its options, else by its kind, else by its origin.

    Args:
        spec: the target; its options have at most a reference to a key, never the key.
        endpoint: the only address to which the key may be sent.
        context: has the environment.

    Raises:
        UsageError: the variable is not set, or its value cannot be sent in a header.
    """
    subject = f"Target {spec.name!r}"
    for name in names_in(spec.options.get("api_key")):
        return read_key(name, context, subject)
    kind = get_kind(spec)
    if kind.key_variables and (urlsplit(endpoint).hostname or "").endswith(kind.key_hosts):
        return _get_first_key(kind.key_variables, context, subject)
    return key_for_endpoint(endpoint, context, subject)


def read_key(variable: str, context: TargetContext, subject: str) -> str:
    """Returns the key in a variable.

    Raises:
        UsageError: the variable is not set, or its value cannot be sent in a header.
    """
    return _check_key(context.get_key(variable, subject), variable)


def key_for_endpoint(endpoint: str, context: TargetContext, subject: str) -> str | None:
    """Returns the key for an endpoint by its origin; None if there is none.

    The origin of a kind's own address gets that kind's key; any other origin gets `PROCTOR_API_KEY`, if set,
    and never another key.

    Raises:
        UsageError: the variable of a known service is not set, or a key cannot be sent in a header.
    """
    origin = _get_origin(endpoint)
    if origin is None:
        raise UsageError(f"{subject}: the URL must look like http://HOST:PORT/v1.")
    for kind in iter_address_kinds():
        if kind.key_variables and kind.address is not None and _get_origin(kind.address) == origin:
            return _get_first_key(kind.key_variables, context, subject)
    name = "PROCTOR_API_KEY"
    return _check_key(context.environ.get(name, "").strip(), name) or None


def _get_first_key(variables: tuple[str, ...], context: TargetContext, subject: str) -> str:
    """Returns the key in the first of these variables that is set."""
    name = next((name for name in variables if context.environ.get(name, "").strip()), variables[0])
    return read_key(name, context, subject)


def proxy_for(url: URL, environ: Mapping[str, str]) -> URL | None:
    """Returns the proxy for a URL from `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, or None.

    The names may be in capitals as well. Addresses on this machine never use a proxy, which would resolve
    them to its own host.

    Raises:
        UsageError: the variable is not a URL.
    """
    host = url.host or ""
    if host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d+){3}", host):
        return None
    names = [name for name in environ if name.lower().endswith("_proxy")]
    # Sorting puts capitals first, so that the lower-case form wins.
    proxies = {name.lower().removesuffix("_proxy"): environ[name].strip() for name in sorted(names)}
    proxy_value = proxies.get(url.scheme) or proxies.get("all")
    excluded_hosts = [name.strip().removeprefix("*").lstrip(".") for name in proxies.get("no", "").split(",")]
    is_direct = proxies.get("no") == "*" or any(
        place == name or place.endswith(f".{name}")
        for name in excluded_hosts
        if name
        for place in (host, f"{host}:{url.port}")
    )
    if not proxy_value or is_direct:
        return None
    proxy = proxy_value if "://" in proxy_value else f"http://{proxy_value}"
    if not proxy.lower().startswith("http") or _get_origin(proxy) is None:
        raise UsageError(f"The proxy for {url.scheme} in the environment must look like http://HOST:PORT.")
    return URL(proxy)


def _get_origin(url: str) -> str | None:
    try:
        return str(URL(url).origin())
    except ValueError:
        return None


def _check_key(key: str, variable: str) -> str:
    if not (key.isascii() and (key.isprintable() or not key)):
        raise UsageError(
            f"The environment variable {variable} contains characters that are not allowed in a key. Copy "
            f"the key again."
        )
    return key


def _read_error(body: Body) -> tuple[str, str | None]:
    """Returns the message in an error body, and the parameter that it is about, if there is one."""
    try:
        details = msgspec.json.decode(body)
    except UNREADABLE_JSON:
        return body.decode("utf-8", "replace"), None
    if isinstance(details, list) and details:
        details = details[0]
    param = None
    for name in ("error", "message", "detail"):
        if isinstance(details, dict) and details.get(name):
            param_name = details.get("param")
            param = param_name if isinstance(param_name, str) else param
            details = details[name]
    if isinstance(details, dict) and isinstance(details.get("param"), str):
        param = details["param"]
    return details if isinstance(details, str) else msgspec.json.encode(details).decode(), param


def _redact_text(text: str, secrets: Iterable[str]) -> str:
    secrets = tuple(secrets)
    for secret in secrets:
        if len(secret) >= MIN_KEY_LENGTH:  # also placeholders that answers may contain, such as `not-needed`
            text = text.replace(secret, REPLACEMENT)
    return KeyRedactor(secrets).redact_text(text)


def _display_url(url: URL) -> str:
    return str(url.with_query(None).with_user(None))


def _shorten(text: str) -> str:
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= _MAX_QUOTE else flat[: _MAX_QUOTE - 1] + "…"
