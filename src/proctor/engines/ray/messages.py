"""What the engine and its processes send one another: plain data, with no key and no value of a variable."""

from __future__ import annotations

import pickle
from typing import Any

from msgspec import Struct

from proctor.engines.caching import CallCounts
from proctor.model import Trial
from proctor.plan import PlannedTrial

LOST_LIMITS = (
    "The process that shares the limits of the run among the processes of the Ray cluster has ended."
)
"""Why a run stops if its limits can no longer be enforced."""
LOST_CONNECTION = "The connection to the Ray cluster was lost."
"""Why a run stops if the cluster is lost: Ray Client reports this after 30 s without its server."""
TrialKey = tuple[int, int]
"""The position and the repeat of a trial."""


class TrialShard(Struct, frozen=True):
    """Trials of whole cases that one process makes."""

    number: int
    trials: tuple[PlannedTrial, ...]


class TrialMessage(Struct, frozen=True):
    """A trial of a shard: finished, or only answered and being graded."""

    shard: int
    trial: Trial
    is_finished: bool
    is_stored: bool
    """Whether its process has stored it."""

    @property
    def key(self) -> TrialKey:
        """The key of the trial."""
        return self.trial.position, self.trial.repeat


class ShardEnd(Struct, frozen=True):
    """The last message of a shard."""

    shard: int


class Sentence(Struct, frozen=True):
    """A sentence for the user."""

    text: str
    is_warning: bool = False


class StopRequest(Struct, frozen=True):
    """Why the run cannot continue, as a sentence."""

    reason: str


class Breakdown(Struct, frozen=True):
    """Something other than a target failed."""

    text: str


Message = TrialMessage | ShardEnd | Sentence | StopRequest | Breakdown | CallCounts


class Delivery(Struct, frozen=True):
    """Messages of one process, in order."""

    messages: tuple[Message, ...]
    has_failing_endpoint: bool


def dump(value: Any) -> bytes:
    """Returns what is sent for a value; all that the engine and its processes send goes through here."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def load(data: bytes) -> Any:
    """Returns the value of what was received from another process of the same run."""
    return pickle.loads(data)  # noqa: S301 - Ray itself pickles all that its processes send
