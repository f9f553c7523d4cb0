"""The target of a run whose requests are sent in batches: encodes prompts, and reads and prices answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.batch_protocol import BatchReply, BatchService
from proctor.engines.budget import Budget, estimate_max_usd
from proctor.engines.retries import check_output
from proctor.errors import ProctorError, TargetError, UsageError
from proctor.model import Output, Price, TargetSpec
from proctor.plan import PlannedTrial
from proctor.pricing import cost_usd, is_valid_usage
from proctor.targets import get_service
from proctor.targets.context import TargetContext
from proctor.targets.redaction import redact_address

if TYPE_CHECKING:
    from proctor.targets.api.target import ApiTarget

DEFAULT_POLL_S = 5.0
_POLL_VARIABLE = "PROCTOR_BATCH_POLL_S"
_BILLED_KINDS = frozenset({"protocol", "too-large"})
"""Errors of answers that came, and were paid for."""


class BatchedTarget:
    """A target whose requests are sent in batches; a `BatchTarget` of `engines/protocol.py`."""

    def __init__(
        self,
        spec: TargetSpec,
        target: ApiTarget,
        service: BatchService,
        *,
        price: Price | None,
        budget: Budget | None,
        output_tokens: int,
        first_poll_s: float,
        notify: Callable[[str], None],
    ) -> None:
        """Sends nothing.

        Args:
            spec: the target's specification.
            target: encodes requests and decodes replies.
            service: the batches of its model.
            price: its price in a batch; None if it is unknown.
            budget: the budget of the run; None for none.
            output_tokens: the maximum tokens of an answer, for the budget.
            first_poll_s: the first interval between polls.
            notify: called with a sentence when the target reports invalid token counts.
        """
        self.name = spec.name
        self.service = service
        self.first_poll_s = first_poll_s
        self._spec = spec
        self._target = target
        self._price = price
        self._budget = budget
        self._output_tokens = output_tokens
        self._notify = notify
        self._has_warned = False

    @property
    def refused_params(self) -> frozenset[str]:
        """The parameters that the service refused so far, by its names."""
        return self._target.endpoint.refused_names

    def leave_out(self, names: Iterable[str]) -> None:
        """Learns parameters that the service refused in an earlier process."""
        self._target.endpoint.refused_names |= frozenset(names)

    def encode(self, planned_trial: PlannedTrial, left_out: frozenset[str]) -> bytes:
        """Returns the request for a trial, without the parameters of these names."""
        return self._target.encode_request(planned_trial.make_prompt(), left_out)

    def decode(self, planned_trial: PlannedTrial, reply: BatchReply, batch_id: str) -> Output:
        """Returns the answer in a reply, with its cost.

        Raises:
            TargetError: there is none.
        """
        try:
            if reply.error is not None:
                raise reply.error
            output = check_output(self._target.decode_reply(reply.body, planned_trial.make_prompt()))
        except TargetError as error:
            error.args = (self._redact(str(error)),)
            raise
        except ProctorError:
            raise
        except Exception as error:  # one unexpected reply costs one trial its output, as outside of batches
            raise TargetError(
                f"The answer cannot be read: {type(error).__name__}: {error}", kind="protocol"
            ) from error
        usage = output.usage
        if usage is not None and not is_valid_usage(usage):
            self._warn_of_usage()
            usage = None
        cost = cost_usd(usage, self._price)
        return replace(
            output, usage=usage, cost_usd=cost, batch_id=batch_id, request_id=reply.request_id, latency_ms=0.0
        )

    def can_send_again(
        self, planned_trial: PlannedTrial, error: TargetError, left_out: frozenset[str]
    ) -> bool:
        """Returns whether a request was refused only for a parameter that may be left out; learns its name.

        Args:
            planned_trial: the trial.
            error: why there is no answer.
            left_out: the parameters that the request did not have.
        """
        from proctor.targets.api.http import RefusedRequest

        if not isinstance(error, RefusedRequest):
            return False
        name = error.find_parameter(self._target.optional_params)
        if name is None or name in left_out:
            return False
        if self.encode(planned_trial, left_out) == self.encode(planned_trial, left_out | {name}):
            return False
        self.leave_out([name])
        return True

    def reserve(self, planned_trial: PlannedTrial, *, is_sent: bool = False) -> bool:
        """Reserves the maximum cost of a trial from the budget; returns False if it does not fit now.

        Raises:
            TargetError: the budget is spent, and the request has not been sent.
        """
        if self._budget is None:
            return True
        return self._budget.reserve_now(self._estimate_max_usd(planned_trial), is_sent=is_sent)

    def settle(self, planned_trial: PlannedTrial, result: Output | TargetError | None) -> None:
        """Settles a trial whose cost was reserved, by its answer or its error; None if it was not sent."""
        if self._budget is None:
            return
        most_usd = self._estimate_max_usd(planned_trial)
        charged_usd = 0.0
        if isinstance(result, Output) and result.cost_usd is not None:
            charged_usd = result.cost_usd
        elif isinstance(result, Output) or (result is not None and result.kind in _BILLED_KINDS):
            charged_usd = most_usd
            self._budget.assumed_calls += 1
        self._budget.settle(most_usd, charged_usd)

    def _estimate_max_usd(self, planned_trial: PlannedTrial) -> float:
        if self._price is None:
            return 0.0
        return estimate_max_usd(planned_trial.make_prompt(), self._price, self._output_tokens)

    def _warn_of_usage(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._notify(
                f"{self.name!r} reports token counts that are not whole numbers. They count as "
                "unknown, and the budget is charged the amount that was reserved."
            )

    def _redact(self, text: str) -> str:
        """Returns a text with the address as it is written in the targets file."""
        reference = self._spec.options.get("base_url")
        if reference is None or self._spec.endpoint is None:
            return text
        return redact_address(text, self._spec.endpoint, reference)


def open_service(spec: TargetSpec, target: ApiTarget, context: TargetContext) -> BatchService:
    """Opens the batches of a target.

    Raises:
        UsageError: its service has none.
    """
    module, _, name = get_service(spec).batches.partition(":")
    if not module:
        raise UsageError(f"Target {spec.name!r} does not support batches. Use --no-batch.")
    service: BatchService = getattr(import_module(module), name)(target.endpoint, context)
    return service


def read_poll_interval(environ: Mapping[str, str]) -> float:
    """Returns the first interval between polls, in seconds: `$PROCTOR_BATCH_POLL_S`, else 5.

    Raises:
        UsageError: the variable is no positive number.
    """
    text = environ.get(_POLL_VARIABLE, "").strip()
    try:
        interval_s = float(text) if text else DEFAULT_POLL_S
    except ValueError:
        interval_s = 0.0
    if not 0 < interval_s < 86_400:
        raise UsageError(f"{_POLL_VARIABLE} is {text!r}. Give a number of seconds, such as 5.")
    return interval_s
