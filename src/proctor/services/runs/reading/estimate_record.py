"""The estimate of a request, as numbers and as sentences; `estimate.py` makes it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from proctor.model import Usage
from proctor.plurals import join_names, pluralize
from proctor.reports.formatting import seconds as duration

BYTES_PER_TOKEN = 4
"""Used for text whose tokens no earlier run has counted."""
DEFAULT_ANSWER_TOKENS = 200
"""Used for answers where there are no earlier ones, unless a lower limit is set."""


class Share(Struct, frozen=True, kw_only=True):
    """The calls of one target or judge in a request."""

    name: str
    judging: bool
    calls: int
    usage: Usage
    is_measured: bool
    """Whether the tokens are those of earlier runs of the suite; else they are guessed from text lengths."""
    cost_usd: float | None
    """None if its price is unknown."""
    reports_cost: bool = False
    """Whether it reports the cost of its answers."""
    seconds: float | None
    """None if no earlier run called it."""


class Estimate(Struct, frozen=True, kw_only=True):
    """The calls, cost and duration of a request."""

    cases: int
    """The number of selected cases."""
    dev: int | None
    """The number of dev cases among them; None if nothing is held out."""
    holdout: int | None
    targets: int
    prompts: int = 0
    """0 if the cases are sent as they are."""
    calls: int
    """The number of calls of targets."""
    shares: tuple[Share, ...] = ()
    at_most: bool = False
    """Whether answers may be reused from earlier runs or the cache."""
    budget_usd: float | None = None
    self_judged: tuple[str, ...] = ()
    """Targets that judge their own answers because no judge is named."""

    @property
    def judge_calls(self) -> int:
        """The number of calls of judges."""
        return sum(share.calls for share in self.shares if share.judging)

    @property
    def cost_usd(self) -> float | None:
        """The approximate cost of all calls; None if a price is unknown."""
        costs = [share.cost_usd for share in self.shares]
        known_costs = [cost for cost in costs if cost is not None]
        return None if len(known_costs) < len(costs) else math.fsum(known_costs)

    @property
    def seconds(self) -> float | None:
        """The approximate duration of all calls; None if a speed is unknown."""
        times = [share.seconds for share in self.shares]
        known_times = [time for time in times if time is not None]
        return None if len(known_times) < len(times) else math.fsum(known_times)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Targets and judges whose price is unknown."""
        return tuple(dict.fromkeys(share.name for share in self.shares if share.cost_usd is None))

    @property
    def unlimited(self) -> tuple[str, ...]:
        """Targets that no budget can limit: their price is unknown, and they do not report costs."""
        reporting_names = {share.name for share in self.shares if share.reports_cost}
        return tuple(name for name in self.unpriced if name not in reporting_names)

    @property
    def untimed(self) -> tuple[str, ...]:
        """Targets and judges that no earlier run called."""
        return tuple(dict.fromkeys(share.name for share in self.shares if share.seconds is None))

    @property
    def sentence(self) -> str:
        """One line, such as `24 dev + 6 holdout cases × 2 targets = 60 calls, about $0.04, about 40 s`."""
        selected = self._format_selected()
        if not self.targets:
            return f"{selected}; choose a target"
        repeats, remainder = divmod(self.calls, max(1, self.cases * self.targets * max(1, self.prompts)))
        times = f" × {repeats} repeats" * (repeats > 1)
        targets, prompts = pluralize(self.targets, "target"), pluralize(self.prompts, "prompt")
        if not remainder and repeats:
            product = f"{times}{f' × {prompts}' * (self.prompts > 0)} × {targets} ="
        else:
            product = f"{f' with {prompts}' * (self.prompts > 0)} on {targets} ="
        calls = f"{'at most ' * self.at_most}{pluralize(self.calls, 'call')}"
        if self.judge_calls:
            calls += f" + {pluralize(self.judge_calls, 'judge call')}"
        return f"{selected}{product} {calls}, {self._format_cost()}, {self._format_time()}"

    def _format_selected(self) -> str:
        if self.dev and self.holdout:
            return f"{self.dev:,} dev + {self.holdout:,} holdout cases"
        split = "dev " if self.dev else "holdout " if self.holdout else ""
        return pluralize(self.cases, f"{split}case")

    def _format_cost(self) -> str:
        known_cost = math.fsum(share.cost_usd or 0.0 for share in self.shares)
        if self.unpriced:
            return f"at least {format_approximate_usd(known_cost)}" if known_cost else "cost unknown"
        return f"about {format_approximate_usd(known_cost)}" if known_cost else "no cost"

    def _format_time(self) -> str:
        known_time = math.fsum(share.seconds or 0.0 for share in self.shares)
        words = f"{max(1, round(known_time))} s" if known_time < 10 else duration(known_time)
        if self.untimed:
            return f"at least {words}" if known_time else "time unknown"
        return f"about {words}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on where the numbers come from, and what is unknown."""
        notes = []
        estimates = [share for share in self.shares if not share.is_measured and share.cost_usd]
        if estimates:
            names = _list_names(share.name for share in estimates)
            notes.append(
                f"No earlier run of this suite has token counts for {names}, so they are estimated: "
                f"{BYTES_PER_TOKEN} bytes of text per token, and {DEFAULT_ANSWER_TOKENS} tokens per "
                "answer unless the maximum is lower."
            )
        if self.unpriced:
            notes.append(
                f"The price of {_list_names(self.unpriced)} is unknown. Set it in a prices.toml beside "
                "the store."
            )
        if self.untimed:
            notes.append(f"The speed of {_list_names(self.untimed)} will be known after a first run.")
        if self.at_most:
            notes.append("Existing answers are reused, so fewer calls may be needed.")
        if self.self_judged:
            names = _list_names(self.self_judged)
            notes.append(
                f"No judge is named for {names}. Models favour their own answers when they judge them."
            )
        if self.budget_usd is not None:
            notes.append(
                f"Each run stops sending requests when {format_approximate_usd(self.budget_usd)} is spent."
            )
        return tuple(notes)


def format_approximate_usd(usd: float) -> str:
    """Formats an approximate sum with as many digits as it needs: `$0.04`, `$0.0012`, `$1,200`."""
    if usd >= 100:
        return f"${usd:,.0f}"
    return f"${usd:.2f}" if usd >= 0.01 else f"${usd:.4f}" if usd >= 0.0001 else "less than $0.0001"


def _list_names(names: Iterable[str]) -> str:
    return join_names(list(dict.fromkeys(names)), 3)
