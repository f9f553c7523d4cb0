"""The bytes of a request's head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from proctor.errors import UsageError
from proctor.targets.transport.protocol import RequestHead


def encode(url: str, **headers: str) -> list[str]:
    head = RequestHead("POST", URL(url), {name.replace("_", "-"): text for name, text in headers.items()})
    return head.encoded.decode().split("\r\n")


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://h.example/v1", "/v1", "h.example"),
        ("http://h.example:80/v1", "/v1", "h.example"),
        ("https://h.example:443", "/", "h.example"),
        ("https://h.example:8443/a?b=c%20d#e", "/a?b=c%20d", "h.example:8443"),
        ("http://h.example./v1", "/v1", "h.example"),
        ("http://[::1]:9/ä b", "/%C3%A4%20b", "[::1]:9"),
        ("http://[fe80::1%25eth0]/", "/", "[fe80::1]"),
        ("http://bücher.example/", "/", "xn--bcher-kva.example"),
    ],
)
def test_the_address_is_written_as_servers_expect(url: str, line: str, host: str) -> None:
    lines = encode(url)
    assert lines[0] == f"POST {line} HTTP/1.1"
    assert f"Host: {host}" in lines
    assert lines[-1] == "Content-Length: "


def test_a_user_in_the_address_becomes_a_header_unless_there_is_a_key() -> None:
    assert "Authorization: Basic dTpw" in encode("http://u:p@h.example/")
    lines = encode("http://u:p@h.example/", Authorization="Bearer k")
    assert [line for line in lines if line.startswith("Authorization")] == ["Authorization: Bearer k"]


def test_own_headers_replace_the_usual_ones_but_never_the_length() -> None:
    lines = encode("http://h.example/", user_agent="mine", content_length="7", transfer_encoding="chunked")
    assert [line for line in lines if line.lower().startswith("user-agent")] == ["user-agent: mine"]
    assert [line for line in lines if "ength" in line or "chunked" in line] == ["Content-Length: "]


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_header_is_one_line_or_refused(name: str, value: str) -> None:
    try:
        head = RequestHead("POST", URL("http://h.example/"), {name: value})
    except UsageError:
        return
    lines = head.encoded.split(b"\r\n")
    usual = RequestHead("POST", URL("http://h.example/"), {}).encoded
    assert len(lines) <= 1 + len(usual.split(b"\r\n"))
    assert all(b"\n" not in line and b"\r" not in line and b"\0" not in line for line in lines)


@pytest.mark.parametrize(("name", "value"), [("a", "b\r\nc: d"), ("a\n", "b"), ("a b", "c"), ("", "b")])
def test_a_header_that_would_be_two_is_refused_without_its_value(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="character that is not allowed in a header") as caught:
        RequestHead("POST", URL("http://h.example/"), {name: value})
    assert "c: d" not in str(caught.value)


def test_what_asks_for_the_end_of_its_connection_does_not_keep_it() -> None:
    url = URL("http://h.example/")
    assert RequestHead("POST", url, {}).keeps_connection
    assert not RequestHead("POST", url, {"connection": "x, Close"}).keeps_connection
