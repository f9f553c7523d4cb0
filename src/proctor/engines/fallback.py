"""Calls one target after another until one answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from proctor.errors import EndpointFailed, TargetError
from proctor.model import Output, Prompt
from proctor.protocols import Answerer


class FallbackTarget:
    """A target with fallbacks, which are called in its place when it fails permanently."""

    def __init__(
        self,
        targets: Sequence[tuple[str, Answerer]],
        notify: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """Wraps targets.

        Args:
            targets: names and targets, in the order of calls.
            notify: called with a sentence the first time that each fallback answers.
        """
        self._targets = tuple(targets)
        self._notify = notify
        self._announced: set[str] = set()

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the first answer; its `target` is the name of the fallback, if one answered.

        Raises:
            EndpointFailed: the endpoints of all targets were given up.
            TargetError: all targets failed, or the budget is spent; the kind is that of the last failure.
        """
        failures: list[tuple[str, TargetError]] = []
        for name, target in self._targets:
            try:
                output = await target.answer(prompt)
            except TargetError as error:
                if error.kind == "budget":
                    raise
                failures.append((name, error))
            else:
                return self._mark_fallback(name, output, failures) if failures else output
        last = failures[-1][1]
        messages = " ".join(f"{name!r}: {error}" for name, error in failures)
        given_up = all(isinstance(error, EndpointFailed) for _, error in failures)
        error_type = EndpointFailed if given_up else TargetError
        raise error_type(
            f"Neither the target nor its fallbacks answered. {messages}", kind=last.kind
        ) from last

    def _mark_fallback(self, name: str, output: Output, failures: list[tuple[str, TargetError]]) -> Output:
        if name not in self._announced:
            self._announced.add(name)
            failed, error = failures[-1]
            self._notify(f"{failed!r} failed, so {name!r} was called instead: {error}")
        return output if output.target is not None else replace(output, target=name)
