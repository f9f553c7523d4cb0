"""The totals of a run, stored with it, so that lists and pages need not read its trials.

They are a cache of what `verdicts.py` counts: another version of Proctor counts again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import DecodeError, Struct

from proctor import __version__
from proctor.codec import decode, encode
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.runs.histogram import Bin, make_bins
from proctor.verdicts import Tally, TallyState

_PREFIX = f"{__version__} 4\n".encode()
"""Precedes stored totals: the version of Proctor, and a number that grows when the record or its meaning
changes."""


class RunTotals(Struct, frozen=True, kw_only=True):
    """The totals of a run."""

    tally: Tally
    bins: Callable[[str], Sequence[Bin]]
    """Returns a histogram of its answers: of `latency`, in milliseconds, or of `cost`, in US dollars."""


class _TotalsRecord(Struct, frozen=True, kw_only=True):
    tally: TallyState
    bins: dict[str, tuple[Bin, ...]]


def encode_totals(tally: Tally) -> bytes:
    """Returns what to store of the tally of all trials of a run."""
    numbers = {"latency": tally.latencies_ms, "cost": tally.costs_usd}
    bins = {name: tuple(make_bins(values.sort())) for name, values in numbers.items()}
    return _PREFIX + encode(_TotalsRecord(tally=tally.state(), bins=bins))


def load_totals(store: Store, run: Run) -> RunTotals | None:
    """Returns the stored totals of a run; None if there are none for its current trials.

    Raises:
        StoreError: the store cannot be read.
    """
    return decode_totals(run, store.totals(run.id).body)


def decode_totals(run: Run, body: bytes | None) -> RunTotals | None:
    """Returns the totals of a run from what is stored; None if nothing is, or nothing that can be used."""
    if body is None or not body.startswith(_PREFIX):
        return None
    try:
        record = decode(body.removeprefix(_PREFIX), _TotalsRecord)
    except DecodeError:
        return None  # damaged: they can be counted again
    return RunTotals(tally=Tally.restore(run, record.tally), bins=record.bins.__getitem__)


def copy_totals(run: Run, tally: Tally) -> RunTotals:
    """Returns the totals of the trials of a run so far, while its tally goes on counting."""
    state = decode(encode(tally.state()), TallyState)
    numbers = {"latency": tally.latencies_ms.copy(), "cost": tally.costs_usd.copy()}
    return RunTotals(tally=Tally.restore(run, state), bins=lambda name: make_bins(numbers[name].sort()))
