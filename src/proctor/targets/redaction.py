"""Keeps addresses that come from variables out of error messages."""

from __future__ import annotations

import re

from proctor.errors import TargetError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Output, Prompt, TargetSpec
from proctor.protocols import Target

_HOST_IN_REFERENCE = lazy_pattern(r"\s*(\w+://)?[^/]*\$\{\{")
_SOCKET_ADDRESS = lazy_pattern(r" ?\(['\"][0-9A-Fa-f.:%]+['\"], \d+[^)]*\)")
"""An IP address and port, as the system's errors show them."""


class RedactingTarget:
    """A target whose errors show its address as written in the targets file."""

    def __init__(self, target: Target, address: str, reference: str) -> None:
        """Wraps a target.

        Args:
            target: the target to call; closing this one closes it.
            address: its address.
            reference: the same address as written, with references.
        """
        self._target = target
        self._address = address
        self._reference = reference

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the target's answer.

        Raises:
            TargetError: as the target does, without the address.
        """
        try:
            return await self._target.answer(prompt)
        except TargetError as error:
            error.args = (redact_address(str(error), self._address, self._reference),)
            raise

    async def aclose(self) -> None:
        """Closes the target."""
        await self._target.aclose()


def redact_errors(target: Target, spec: TargetSpec) -> Target:
    """Wraps the target so that its errors hide the address, if that has references."""
    reference = spec.options.get("base_url")
    return (
        target
        if reference is None or spec.endpoint is None
        else RedactingTarget(target, spec.endpoint, reference)
    )


def redact_address(text: str, address: str, reference: str) -> str:
    """Replaces the address in a text by the reference, and its host by `[host]` if that is in a reference."""
    text = re.sub(
        re.escape(address.rstrip("/")), lambda _: reference.strip().rstrip("/"), text, flags=re.IGNORECASE
    )
    name = re.sub(r":\d*$", "", address.partition("://")[2].partition("/")[0]).strip("[]")
    if not name or not _HOST_IN_REFERENCE.match(reference):
        return text
    host = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    return _SOCKET_ADDRESS.sub("", host.sub("[host]", text))
