"""Removes the request's key from an answer, in case the endpoint echoes it.

The key is recognized as sent, percent-encoded, escaped for JSON, and inside Base64, as `Authorization: Basic`
sends it. Other forms, such as a split, reversed or hexadecimal key, are not recognized.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from proctor.env_substitution import map_texts
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Output
from proctor.parameters import SECRET_HEADER

REPLACEMENT = "[key]"
MIN_KEY_LENGTH = 6
"""Shorter keys occur in ordinary words, and removing them would spoil answers."""
_MAX_WORDS_LENGTH = 20
_ORDINARY_WORDS = lazy_pattern(r"(?:[A-Z]?[a-z]+|[A-Z]+|\d+)(?:[-_. ](?:[A-Z]?[a-z]+|[A-Z]+|\d+))*")
"""Placeholders for servers that accept any key, such as `not-needed`, and plain numbers."""
_MIN_BASE64_LENGTH = 8


class KeyRedactor:
    """Replaces keys in texts by `[key]`; a text without one costs a search for each form of the key."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Ignores keys that are too short or are ordinary words."""
        forms = {form for key in keys if is_secret(key) for form in _encoded_forms(key)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))

    def redact_text(self, text: str) -> str:
        """Returns the text without keys."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, REPLACEMENT)
        return text

    def redact_output(self, output: Output) -> Output:
        """Returns the output without keys in any of its texts; the same object if it has no key."""
        if not self._forms:
            return output
        if not _has_nested_texts(output):
            ids = f"{output.response_id}\n{output.request_id}\n{output.service_tier}"
            names = f"{output.model}\n{output.fingerprint}\n{output.finish_reason}\n{ids}"
            text, reasoning = output.text, output.reasoning or ""
            for form in self._forms:
                if form in text or form in names or form in reasoning:
                    break
            else:
                return output
        redacted: Output = map_texts(output, self.redact_text, keys=True)
        return output if redacted == output else redacted


def _has_nested_texts(output: Output) -> bool:
    return bool(
        output.tool_calls or output.messages or output.file_changes or output.attachments or output.logprobs
    )


def find_secrets(headers: Mapping[str, str]) -> list[str]:
    """Returns the keys in the headers of a request, by the names of the headers."""
    return [value.removeprefix("Bearer ") for name, value in headers.items() if SECRET_HEADER.search(name)]


def is_secret(key: str) -> bool:
    """Whether a key differs from ordinary text, unlike `none`, `ollama` or `not-needed`."""
    if len(key) < MIN_KEY_LENGTH:
        return False
    return len(key) >= _MAX_WORDS_LENGTH or _ORDINARY_WORDS.fullmatch(key) is None


def _encoded_forms(key: str) -> set[str]:
    """Returns the encodings in which a key may come back."""
    encoded = quote(key, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), encoded)
    return {
        key,
        encoded,
        lower,
        quote(key),
        json.dumps(key)[1:-1],
        key.replace("/", r"\/"),
        *_base64_fragments(key),
    }


def _base64_fragments(key: str) -> Iterator[str]:
    """Yields the parts of a text's Base64 that encode the key, for each of the three possible alignments."""
    for before in range(3):
        encoded = b64encode(b"\0" * before + key.encode()).decode()
        part = encoded[-(-before * 8 // 6) : (before + len(key)) * 8 // 6]
        if len(part) >= _MIN_BASE64_LENGTH:
            yield from (part, part.replace("+", "-").replace("/", "_"))
