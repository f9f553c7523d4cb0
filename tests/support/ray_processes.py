"""The processes of a Ray cluster in this process: the same code behind handles like Ray's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from ray.exceptions import ActorDiedError

from proctor.engines.ray.cluster import RayCluster
from proctor.engines.ray.processes import LeaseProcess, TrialProcess


class Method:
    """A method of an actor; `remote` calls it."""

    def __init__(self, actor: Actor, name: str) -> None:
        self._actor = actor
        self._name = name

    def remote(self, *arguments: Any) -> Awaitable[Any]:
        self._actor.check()
        return asyncio.create_task(self._actor.call(self._name, arguments))


class Actor:
    """The handle of an actor, which notes what is sent to it and by it."""

    def __init__(self, thing: object, sent: list[bytes]) -> None:
        self._thing = thing
        self._sent = sent
        self.is_dead = False
        self.is_cut_off = self.is_stuck = False

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    async def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self.is_stuck:
            await asyncio.sleep(60)
        if self.is_dead:
            raise ActorDiedError()
        self._sent += [value for value in arguments if isinstance(value, bytes)]
        result = await getattr(self._thing, name)(*arguments)
        self.check()
        if self.is_dead:  # what it would have sent is lost
            raise ActorDiedError()
        self._sent += [result] * isinstance(result, bytes)
        return result

    def check(self) -> None:
        """Raises what Ray Client raises without its server."""
        if self.is_cut_off:
            raise ConnectionError("Failed to reconnect within the reconnection grace period (30s)")

    def end(self) -> None:
        """Ends the actor, with all that it is doing."""
        self.is_dead = True
        if isinstance(self._thing, TrialProcess):
            for task in self._thing._tasks:
                task.cancel()
            self._thing._outbox.add(is_urgent=True)  # a fetch that waits ends

    async def clean_up(self) -> None:
        """Closes what an ended process leaves to the system, such as its connections."""
        if self.is_dead and isinstance(self._thing, TrialProcess):
            await self._thing.close()


class LocalCluster(RayCluster):
    """A cluster of this process alone."""

    def __init__(self, process_count: int = 2) -> None:
        super().__init__("local", lambda _message: None)
        self.process_count = process_count
        self.sent: list[bytes] = []
        """All that was sent between the engine and its processes."""
        self.actors: list[Actor] = []
        """The processes that make trials, in the order in which they were started."""

    async def __aenter__(self) -> RayCluster:
        RayCluster.current = self
        return self

    async def __aexit__(self, *_error: object) -> None:
        RayCluster.current = None
        for actor in self.actors:
            await actor.clean_up()

    def take_process(self) -> Actor:
        if self._idle:
            idle: Actor = self._idle.pop()
            return idle
        actor = Actor(TrialProcess(), self.sent)
        self.actors.append(actor)
        return actor

    def cut_off(self) -> None:
        """Ends the connection to all actors."""
        for actor in (*self.actors, self.get_leases()):
            actor.is_cut_off = True

    def end_newest(self) -> None:
        """Ends the process that was started last."""
        self.actors[-1].end()

    def get_leases(self) -> Actor:
        self._leases = self._leases or Actor(LeaseProcess(), self.sent)
        leases: Actor = self._leases
        return leases
