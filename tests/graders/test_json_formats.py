"""`format` of JSON Schema, each with the verdict of ajv-formats 3.0.1, which promptfoo asks."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.graders.json_formats import FORMATS, matches_format

VERDICTS: dict[str, tuple[list[Any], list[Any]]] = {
    "binary": (["\x00"], []),
    "byte": (["YQ==", "", "x\nYQ=="], ["YQ=", "?"]),
    "date": (
        ["2024-02-29", "2000-02-29", "0000-01-01"],
        ["2023-02-29", "1900-02-29", "2024-13-01", "2024-1-1"],
    ),
    "date-time": (
        ["2024-02-29T12:00:00Z", "2024-02-29 12:00:00.5+01:00", "2024-02-29t12:00:00-01"],
        ["2024-02-29T12:00:00", "2024-02-30T12:00:00Z", "2024-02-29", "2024-02-29TT12:00:00Z"],
    ),
    "double": ([1.5], []),
    "duration": (["P1D", "PT1H", "P1W", "P1Y2M3DT4H5M6S"], ["P", "PT", "P1W2D", "p1d", "P1D\n"]),
    "email": (["a@b.co", "A+1@B.CO", "a.b@c.de"], ["a@b", "a..b@c.de", "a@-b.de", "a b@c.de", "a@b.co\n"]),
    "float": ([1.5], []),
    "hostname": (["a.b", "a-b.c", "a."], ["-a.b", "a..b", "x" * 64, ""]),
    "int32": ([1, 1.0, -(2**31)], [1.5, 2**31]),
    "int64": ([2**40, 1e300], [1.5]),
    "ipv4": (["1.2.3.4"], ["256.1.1.1", "01.2.3.4", "1.2.3", "١.2.3.4"]),
    "ipv6": (["::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"], ["1::2::3", "fe80::1%eth0", "12345::", ":::"]),
    "iso-date-time": (["2024-02-29T12:00:00"], ["2024-02-29"]),
    "iso-time": (["12:00:00", "12:00:00Z"], ["24:00:00"]),
    "json-pointer": (["", "/a/b", "/~0"], ["a", "/~2"]),
    "json-pointer-uri-fragment": (["#/a", "#"], ["/a"]),
    "password": (["x"], []),
    "regex": (["a{2}"], ["(", "[a"]),
    "relative-json-pointer": (["0#", "1/a"], ["01", "/a"]),
    "time": (
        ["12:00:00Z", "23:59:60Z", "00:59:60+01:00", "12:00:00+0130"],
        ["12:00:00", "24:00:00Z", "12:00:60Z"],
    ),
    "uri": (
        ["http://a.b/c?d#e", "urn:isbn:1", "http://[::1]/", "http://u:p@h:80/"],
        ["a/b", "//a/b", "http:", "http://a b", "http://[::1", "x://[zz]", "http://%4"],
    ),
    "uri-reference": (["", "/a", "a/b", "//h/p", "#x"], ["\\a", "a b"]),
    "uri-template": (["/a/{b}", "{+x,y:3}"], ["{", "{}"]),
    "url": (["http://a.bc", "http://8.8.8.8"], ["http://a", "https://10.0.0.1", "a.bc"]),
    "uuid": (["123E4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
}


@pytest.mark.parametrize(
    ("name", "value", "keeps"),
    [
        *((name, value, True) for name, (right, _) in VERDICTS.items() for value in right),
        *((name, value, False) for name, (_, wrong) in VERDICTS.items() for value in wrong),
    ],
)
def test_a_format_is_that_of_ajv(name: str, value: Any, keeps: bool) -> None:
    assert matches_format(name, value) is keeps


def test_every_format_is_tested() -> None:
    assert VERDICTS.keys() == FORMATS


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("value", [None, True, [], {}])
def test_a_format_is_about_texts_or_numbers_only(name: str, value: Any) -> None:
    assert matches_format(name, value) is True
    assert matches_format(name, 1 if name not in ("int32", "int64") else "x") is True
