"""The collection of hostile endpoints: what each sends, and what a call to it must give."""

from __future__ import annotations

import gzip
import zlib

from msgspec import Struct

from proctor.targets.transport.protocol import TransportError
from support.hostile_http import (
    Script,
    Step,
    close,
    drip,
    flood,
    half_close,
    pause,
    read_request,
    reset,
)
from support.transports import Failure, Reply

Outcome = Reply | Failure


class Endpoint(Struct, frozen=True):
    """What a server does with its first connection, and what the first call to it gives.

    After its script it serves the connection in peace, if the script left it open.
    """

    name: str
    script: Script
    outcomes: tuple[Outcome, ...]
    """Each of them is right."""
    is_reusable: bool | None = False
    """Whether the next call may take the same connection, and then must; None if it may and need not."""


FAILURE = Failure(TransportError)
OK = Reply(200, b"ok")
ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
start = b"HTTP/1.1 200 OK\r\n"
MEBIBYTE = 2**20


def say(*steps: Step) -> Script:
    """Reads a request, and then plays these steps."""
    return (read_request, *steps)


def fails(name: str, *steps: Step, message: str = "") -> Endpoint:
    """An endpoint whose reply is an error, after which its connection is closed."""
    return Endpoint(name, say(*steps), (Failure(TransportError, message),))


def garbles(name: str, *steps: Step) -> Endpoint:
    """An endpoint whose body arrives whole and cannot be decompressed."""
    return Endpoint(name, say(*steps), (FAILURE,), None)


def gives(
    name: str, *steps: Step, body: bytes = b"ok", status: int = 200, reusable: bool | None = True
) -> Endpoint:
    """An endpoint whose reply is good."""
    return Endpoint(name, say(*steps), (Reply(status, body),), reusable)


def may_give(
    name: str, *steps: Step, body: bytes = b"ok", status: int = 200, reusable: bool | None = None
) -> Endpoint:
    """An endpoint whose reply may be refused, or understood in this way."""
    return Endpoint(name, say(*steps), (Reply(status, body), FAILURE), reusable)


def with_headers(*lines: bytes, body: bytes = b"ok") -> bytes:
    """A response with these lines in its head, and the length of its body."""
    length = b"Content-Length: %d" % len(body)
    return start + b"".join(line + b"\r\n" for line in (*lines, length)) + b"\r\n" + body


def framed(*lines: bytes, body: bytes) -> bytes:
    """A response with these lines in its head, which say themselves where the body ends."""
    return start + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def chunked(data: bytes, *lines: bytes) -> bytes:
    """A response whose body begins with these bytes of chunks."""
    return framed(*lines, b"Transfer-Encoding: chunked", body=data)


def encoded(coding: bytes, body: bytes) -> bytes:
    """A response with a compressed body."""
    return with_headers(b"Content-Encoding: " + coding, body=body)


def deflate(data: bytes, wbits: int) -> bytes:
    """The data, compressed; `wbits` says with which wrapper."""
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(data) + packer.flush()


zipped = gzip.compress(b"ok")
wrong_crc = zipped[:-8] + bytes([zipped[-8] ^ 1]) + zipped[-7:]

WHOLE = [
    gives("length", ok),
    gives("length-dripping", drip(ok)),
    gives("empty-line-first", b"\r\n" + ok, reusable=None),
    gives("chunked", chunked(b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n")),
    gives("chunked-dripping", drip(chunked(b"1\r\no\r\n1;x=y\r\nk\r\n0\r\nT: u\r\n\r\n"))),
    gives("chunked-with-trailers", chunked(b"2\r\nok\r\n0\r\nX-Trailer: 1\r\nY-Trailer: 2\r\n\r\n")),
    may_give("chunked-with-a-length-as-trailer", chunked(b"2\r\nok\r\n0\r\nContent-Length: 9\r\n\r\n")),
    gives("chunked-with-extensions", chunked(b'2;name="a b";c\r\nok\r\n0;last\r\n\r\n')),
    gives("chunked-size-with-zeros", chunked(b"00002\r\nok\r\n000\r\n\r\n")),
    gives("chunked-in-capitals", framed(b"TRANSFER-ENCODING: Chunked", body=b"2\r\nok\r\n0\r\n\r\n")),
    gives("interim-100", b"HTTP/1.1 100 Continue\r\n\r\n", pause, ok),
    gives("interim-103", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok),
    gives("interim-thrice", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" * 2 + ok),
    gives("interim-for-long", b"HTTP/1.1 102 Processing\r\nDate: today\r\n\r\n" * 4_000 + ok),
    gives("empty-length-0", with_headers(body=b""), body=b""),
    gives("empty-chunked", chunked(b"0\r\n\r\n"), body=b""),
    gives("204", b"HTTP/1.1 204 No Content\r\n\r\n", status=204, body=b""),
    gives("304", b"HTTP/1.1 304 Not Modified\r\n\r\n", status=304, body=b""),
    gives(
        "205-with-length", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", status=205, body=b""
    ),
    gives("304-with-length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status=304, body=b""),
    gives("until-the-end", framed(body=b"ok"), close, reusable=False),
    gives("until-the-end-in-two", framed(body=b"o"), pause, b"k", close, reusable=False),
    gives("until-half-close", framed(body=b"ok"), half_close, reusable=False),
    gives("http-1.0", b"HTTP/1.0 200 OK\r\n\r\nok", close, reusable=False),
    gives("http-1.0-with-length", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", reusable=False),
    gives(
        "http-1.0-keep-alive",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        reusable=None,
    ),
    gives("connection-close-that-stays", with_headers(b"Connection: close"), reusable=False),
    gives("connection-close-in-a-list", with_headers(b"Connection: foo, Close"), reusable=False),
    gives("keep-alive-of-no-time", with_headers(b"Keep-Alive: timeout=0"), reusable=None),
    gives("keep-alive-of-nonsense", with_headers(b"Keep-Alive: timeout=-9e9, max=x")),
    gives("no-reason", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", reusable=None),
    gives("empty-reason", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"),
    gives("reason-of-8-bit-bytes", b"HTTP/1.1 200 \xff\xe9\r\nContent-Length: 2\r\n\r\nok", reusable=None),
    gives("header-of-8-bit-bytes", with_headers(b"X: \xff\xfe\xe9")),
    gives("empty-header", with_headers(b"X:", b"Y:   ")),
    gives(
        "upgrade-that-nobody-asked-for", with_headers(b"Upgrade: h2c", b"Connection: Upgrade"), reusable=None
    ),
    gives("cookies", with_headers(b"Set-Cookie: a=b; Path=/")),
    gives("500", b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nok", status=500),
    gives("401", b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok", status=401),
    gives(
        "407-without-proxy",
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok",
        status=407,
    ),
    gives("length-0-then-closed", with_headers(body=b""), close, body=b"", reusable=False),
    gives("length-then-closed", ok, close, reusable=False),
    gives("length-then-half-closed", ok, half_close, reusable=False),
    gives("length-then-reset", ok, reset, reusable=False),
    *(
        gives(
            f"redirect-{status}",
            b"HTTP/1.1 %d Elsewhere\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nok" % status,
            status=status,
        )
        for status in (301, 302, 303, 307, 308)
    ),
]

CUT = [
    Endpoint("closed-before-the-request", (close,), (FAILURE,)),
    Endpoint("reset-before-the-request", (reset,), (FAILURE,)),
    fails("closed-without-reply", close),
    fails("half-closed-without-reply", half_close),
    fails("reset-without-reply", reset),
    fails("closed-in-the-status-line", b"HTTP/1.1 20", close),
    fails("reset-in-the-status-line", b"HTTP/1.1 20", reset),
    fails("closed-in-the-head", start + b"Content-Le", close),
    fails("reset-in-the-head", start + b"Content-Le", reset),
    fails("half-closed-in-the-head", start + b"Content-Length: 2\r\n", half_close),
    fails("closed-after-interim", b"HTTP/1.1 100 Continue\r\n\r\n", close),
    fails("closed-after-the-head", start + b"Content-Length: 2\r\n\r\n", close),
    fails("reset-after-the-head", start + b"Content-Length: 2\r\n\r\n", reset),
    fails("closed-in-the-body", start + b"Content-Length: 3\r\n\r\nok", close),
    fails("half-closed-in-the-body", start + b"Content-Length: 3\r\n\r\nok", half_close),
    fails("reset-in-the-body", start + b"Content-Length: 3\r\n\r\nok", reset),
    fails("reset-in-a-body-until-the-end", framed(body=b"ok"), reset),
    fails("closed-before-chunks", chunked(b""), close),
    fails("closed-in-a-chunk-size", chunked(b"2"), close),
    fails("closed-in-a-chunk", chunked(b"3\r\nok"), close),
    fails("closed-after-a-chunk", chunked(b"2\r\nok\r\n"), close),
    fails("reset-after-a-chunk", chunked(b"2\r\nok\r\n"), reset),
    fails("closed-in-the-last-chunk", chunked(b"2\r\nok\r\n0\r\n"), close),
    fails("closed-in-the-trailers", chunked(b"2\r\nok\r\n0\r\nX: y\r\n"), close),
]

HEADS = [
    fails("status-abc", b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nok"),
    may_give("status-000", b"HTTP/1.1 000 Zero\r\nContent-Length: 2\r\n\r\nok", status=0),
    may_give("status-999", b"HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\nok", status=999),
    fails("status-of-two-digits", b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok"),
    fails("status-of-four-digits", b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok"),
    fails("status-negative", b"HTTP/1.1 -200 OK\r\nContent-Length: 2\r\n\r\nok"),
    fails("http-0.9", b"<html>hello</html>", close),
    fails("http-2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    fails("http-2-settings", b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0d", close),
    fails("http-9.9", b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    fails("icy", b"ICY 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    fails("tls-alert-in-plain-text", b"\x15\3\1\0\2\2\x28", close),
    fails("a-request-as-response", b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok"),
    fails("garbage", bytes(range(1, 255)) * 8, close),
    may_give("line-feeds-only", ok.replace(b"\r\n", b"\n"), reusable=None),
    may_give("space-before-colon", with_headers(b"X : y")),
    may_give("length-with-space-before-colon", framed(b"Content-Length : 2", body=b"ok"), close),
    may_give("obs-fold", with_headers(b"X: y", b"  z")),
    may_give("obs-fold-of-length", framed(b"Content-Length:", b" 2", body=b"ok"), close),
    fails("header-without-colon", with_headers(b"nonsense")),
    fails("header-without-name", with_headers(b": y")),
    fails("nul-in-a-header", with_headers(b"X: a\0b")),
    fails("nul-in-a-name", with_headers(b"X\0Y: ab")),
    may_give("carriage-return-in-a-header", with_headers(b"X: a\rY: b")),
    fails("space-in-a-name", with_headers(b"X Y: b")),
    may_give(
        "101-that-nobody-asked-for",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nok",
        close,
        status=101,
        body=b"",
        reusable=False,
    ),
    fails("endless-status-line", flood(b"HTTP/1.1 200 ", b"a")),
    fails("endless-header-value", flood(start + b"X: ", b"a")),
    fails("endless-header-name", flood(start, b"a")),
    fails("endless-headers", flood(start, b"X: y\r\n")),
    fails("endless-empty-lines", flood(b"", b"\r\n")),
    fails("header-of-a-mebibyte", with_headers(b"X: " + b"a" * MEBIBYTE)),
    may_give("ten-thousand-headers", with_headers(*[b"X: y"] * 10_000)),
]

LENGTHS = [
    may_give(
        "length-twice-the-same", framed(b"Content-Length: 2", b"Content-Length: 2", body=b"ok"), reusable=None
    ),
    may_give("length-list-of-the-same", framed(b"Content-Length: 2, 2", body=b"ok")),
    fails("length-twice-different", framed(b"Content-Length: 2", b"Content-Length: 3", body=b"ok"), close),
    fails("length-list-different", framed(b"Content-Length: 2, 3", body=b"ok"), close),
    *(
        fails(f"length-{name}", framed(b"Content-Length: " + value, body=b"ok"), close)
        for name, value in {
            "negative": b"-2",
            "with-plus": b"+2",
            "hexadecimal": b"0x2",
            "huge": b"9" * 40,
            "with-text": b"2 bytes",
            "with-underscore": b"0_2",
            "with-fraction": b"2.0",
            "in-other-digits": "٢".encode(),
            "2-to-the-64th": b"18446744073709551618",
        }.items()
    ),
    may_give("length-empty", framed(b"Content-Length:", body=b"ok"), close, reusable=False),
    fails("length-of-2-to-the-62nd", framed(b"Content-Length: %d" % 2**62, body=b"ok"), close),
    may_give(
        "length-and-chunks",
        framed(b"Content-Length: 3", b"Transfer-Encoding: chunked", body=b"2\r\nok\r\n0\r\n\r\n"),
        reusable=False,
    ),
    may_give("gzip-and-chunks", framed(b"Transfer-Encoding: gzip, chunked", body=b"2\r\nok\r\n0\r\n\r\n")),
    may_give(
        "chunks-not-last",
        framed(b"Transfer-Encoding: chunked, gzip", body=b"2\r\nok\r\n0\r\n\r\n"),
        close,
        body=b"2\r\nok\r\n0\r\n\r\n",
        reusable=False,
    ),
    may_give(
        "chunks-twice", framed(*[b"Transfer-Encoding: chunked"] * 2, body=b"2\r\nok\r\n0\r\n\r\n"), close
    ),
    may_give("transfer-identity", framed(b"Transfer-Encoding: identity", body=b"ok"), close, reusable=False),
    fails(
        "transfer-xchunked", framed(b"Transfer-Encoding: xchunked", b"Content-Length: 2", body=b"ok!"), close
    ),
    *(
        fails(f"chunk-size-{name}", chunked(data), close)
        for name, data in {
            "empty": b"\r\nok\r\n0\r\n\r\n",
            "negative": b"-2\r\nok\r\n0\r\n\r\n",
            "with-plus": b"+2\r\nok\r\n0\r\n\r\n",
            "with-0x": b"0x2\r\nok\r\n0\r\n\r\n",
            "of-no-digits": b"zz\r\nok\r\n0\r\n\r\n",
            "huge": b"f" * 17 + b"\r\nok\r\n0\r\n\r\n",
            "overflowing": b"10000000000000002\r\nok\r\n0\r\n\r\n",
            "too-small": b"1\r\nok\r\n0\r\n\r\n",
            "too-large": b"9\r\nok\r\n0\r\n\r\n",
        }.items()
    ),
    may_give("chunks-with-line-feeds", chunked(b"2\nok\n0\n\n"), close),
    fails("endless-chunk-size", flood(chunked(b""), b"0")),
    fails("endless-chunk-extension", flood(chunked(b"2;"), b"a")),
    fails("endless-trailers", flood(chunked(b"0\r\n"), b"X: y\r\n")),
    fails("endless-trailer", flood(chunked(b"0\r\nX: "), b"a")),
    may_give("body-longer-than-its-length", ok + b"more", reusable=False),
    may_give("second-response-in-the-same-piece", ok + with_headers(body=b"stolen"), reusable=False),
    gives("second-response-after-a-pause", ok, pause, with_headers(body=b"stolen"), reusable=False),
    gives("a-byte-after-the-end", ok, pause, b"\r", reusable=False),
    may_give(
        "second-response-after-chunks",
        chunked(b"2\r\nok\r\n0\r\n\r\n") + with_headers(body=b"stolen"),
        reusable=False,
    ),
    gives(
        "408-on-the-idle-connection",
        ok,
        pause,
        b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n",
        close,
        reusable=False,
    ),
    gives("100-after-the-reply", ok, pause, b"HTTP/1.1 100 Continue\r\n\r\n", reusable=False),
    may_give(
        "204-with-a-body",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nstolen",
        status=204,
        body=b"",
        reusable=False,
    ),
    may_give(
        "204-with-chunks",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        status=204,
        body=b"",
        reusable=False,
    ),
    may_give(
        "304-with-a-response-as-body",
        b"HTTP/1.1 304 Not Modified\r\n\r\n" + with_headers(body=b"stolen"),
        status=304,
        body=b"",
        reusable=False,
    ),
    gives("205-with-a-body", b"HTTP/1.1 205 Reset\r\nContent-Length: 2\r\n\r\nok", status=205, reusable=None),
    gives(
        "interim-with-length",
        b"HTTP/1.1 103 Early\r\nContent-Length: 6\r\n\r\n" + ok,
        reusable=None,
    ),
]

CODINGS = [
    gives("gzip", encoded(b"gzip", zipped)),
    gives("gzip-dripping", drip(encoded(b"gzip", zipped))),
    gives("x-gzip", encoded(b"x-gzip", zipped), reusable=None),
    gives("gzip-in-capitals", encoded(b"GZIP", zipped)),
    gives(
        "gzip-in-chunks", chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(zipped), zipped), b"Content-Encoding: gzip")
    ),
    gives("gzip-until-the-end", framed(b"Content-Encoding: gzip", body=zipped), close, reusable=False),
    gives("gzip-of-nothing", encoded(b"gzip", gzip.compress(b"")), body=b""),
    gives("gzip-without-a-byte", encoded(b"gzip", b""), body=b""),
    gives("gzip-204", b"HTTP/1.1 204 No\r\nContent-Encoding: gzip\r\n\r\n", status=204, body=b""),
    may_give("gzip-of-two-members", encoded(b"gzip", gzip.compress(b"o") + gzip.compress(b"k"))),
    gives(
        "gzip-dripping-two-members",
        drip(encoded(b"gzip", gzip.compress(b"o") + gzip.compress(b"k"))),
        reusable=None,
    ),
    may_give("gzip-with-garbage-behind", encoded(b"gzip", zipped + b"garbage")),
    garbles("gzip-with-wrong-checksum", encoded(b"gzip", wrong_crc)),
    garbles("gzip-cut-off", encoded(b"gzip", zipped[:-4])),
    garbles("gzip-of-its-header-only", encoded(b"gzip", zipped[:10])),
    garbles("gzip-that-is-none", encoded(b"gzip", b"ok, this is no gzip")),
    gives("deflate-with-zlib", encoded(b"deflate", deflate(b"ok", 15))),
    gives("deflate-raw", encoded(b"deflate", deflate(b"ok", -15))),
    gives("deflate-dripping", drip(encoded(b"deflate", deflate(b"ok", -15)))),
    garbles("deflate-cut-off", encoded(b"deflate", deflate(b"ok" * 99, 15)[:-5])),
    garbles("deflate-that-is-none", encoded(b"deflate", b"ok, this is no deflate")),
    gives("identity", encoded(b"identity", b"ok")),
    garbles("br", encoded(b"br", b"\x0b\x00\x80ok\x03")),
    garbles("zstd", encoded(b"zstd", b"\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00ok\0\0\0\0")),
    may_give("gzip-twice", encoded(b"gzip, gzip", gzip.compress(zipped))),
    garbles("unknown-coding", encoded(b"secret", b"ok")),
]

ENDPOINTS = [*WHOLE, *CUT, *HEADS, *LENGTHS, *CODINGS]

AIOHTTP_FAULTS = {
    "reset-in-a-body-until-the-end": "takes what came before the reset for the whole",
    "endless-empty-lines": "reads on until the caller's time limit",
    "endless-chunk-size": "reads on until the caller's time limit",
    "endless-chunk-extension": "reads on until the caller's time limit",
    "second-response-after-a-pause": "takes it for the answer to the next call",
    "408-on-the-idle-connection": "takes it for the answer to the next call",
    "a-byte-after-the-end": "keeps the connection",
    "100-after-the-reply": "keeps the connection",
    "x-gzip": "leaves the body compressed",
    "gzip-cut-off": "takes the beginning for the whole",
    "gzip-of-its-header-only": "takes it for an empty body",
    "gzip-twice": "leaves the body compressed",
    "unknown-coding": "leaves the body as it is",
}
"""Where aiohttp does not keep the contract, and what it does instead."""
