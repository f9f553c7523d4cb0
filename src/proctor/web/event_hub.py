"""Server-sent events: pushes the state of runs to every page that shows them, wherever they were started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from proctor.errors import ProctorError
from proctor.web import internal_errors
from proctor.web.browser_sessions import get_session
from proctor.web.project import Project, get_project
from proctor.web.run_status import GroupLiveView, LiveSection, LiveView, RunLiveView
from proctor.web.sse import format_event, stream_response
from proctor.web.templates_env import load_run

router = APIRouter()

POLL_INTERVAL_S = 0.5
"""How often the state of a run is read."""
PAUSE_PER_CLIENT_S = 0.002
"""Slows polling above 250 streams: sending one event to each takes the server about half of this."""
PAUSE_PER_WATCHER_S = 0.02
"""Slows polling above 25 watched runs."""
WAKE_BATCH = 10
"""Streams that get an event before other requests have their turn."""
HEARTBEAT_S = 15.0
"""After this long without a change a comment is sent, so that proxies keep the connection open."""
_MAX_FAILURES = 20
"""After this many failed reads in a row, the page reloads and shows the error."""


class Watcher:
    """Polls one live view for all clients that follow it."""

    def __init__(
        self, render: Callable[[], LiveSection], pause_s: Callable[[], float] = lambda: POLL_INTERVAL_S
    ) -> None:
        """Does not poll before the first client asks for changes.

        Args:
            render: renders the current state; called in a thread.
            pause_s: returns the pause between two calls, in seconds.
        """
        self._render = render
        self._pause_s = pause_s
        self._section: LiveSection | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.clients = 0
        self.render_count = 0
        """How often the view was rendered."""

    async def changes(self) -> AsyncIterator[LiveSection | None]:
        """Yields the current section and each later change; None after a while without one."""
        if self._task is None:
            self._task = asyncio.create_task(self._poll())
        last_sent: LiveSection | None = None
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    while self._section is None or self._section is last_sent:
                        await self._wait_for_change()
            except TimeoutError:
                yield None
                continue
            yield (last_sent := self._section)
            if last_sent.is_final:
                return

    async def _wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

    def close(self) -> None:
        """Stops polling."""
        if self._task is not None:
            self._task.cancel()

    async def _poll(self) -> None:
        failures = 0
        while True:
            try:
                section: LiveSection | None = await asyncio.to_thread(self._render)
                failures = 0
            except Exception as error:  # noqa: BLE001  # the page shows it when it reloads
                failures += 1
                if failures == 1 and not isinstance(error, ProctorError):
                    internal_errors.report_error("while it watched", error)
                section = self._section if failures < _MAX_FAILURES else LiveSection("", is_final=True)
            self.render_count += 1
            if section is not None and section != self._section:
                self._section = section
                await self._wake()
                if section.is_final:
                    return
            await asyncio.sleep(self._pause_s())

    async def _wake(self) -> None:
        """Wakes the waiting streams in batches, so that requests are answered in between."""
        waiters = list(self._waiters)
        for start in range(0, len(waiters), WAKE_BATCH):
            for waiter in waiters[start : start + WAKE_BATCH]:
                if not waiter.done():
                    waiter.set_result(None)
            await asyncio.sleep(0)


class EventHub:
    """The watchers of one project; used only from its event loop."""

    def __init__(self) -> None:
        self.watchers: dict[str, Watcher] = {}

    def pause_s(self) -> float:
        """Returns the pause between two reads: longer with many clients or many watched views."""
        clients = sum(watcher.clients for watcher in self.watchers.values())
        return max(POLL_INTERVAL_S, clients * PAUSE_PER_CLIENT_S + len(self.watchers) * PAUSE_PER_WATCHER_S)

    async def events(self, key: str, view: LiveView) -> AsyncIterator[str]:
        """Yields the events for one page.

        Args:
            key: the name of the view.
            view: the view, used if nobody follows it yet.
        """
        watcher = self.watchers.get(key)
        if watcher is None:
            watcher = self.watchers[key] = Watcher(view.render, self.pause_s)
        watcher.clients += 1
        try:
            async for section in watcher.changes():
                yield ": still here\n\n" if section is None else format_event(section.html)
            yield format_event("done", "done")
        finally:
            watcher.clients -= 1
            if not watcher.clients:
                watcher.close()
                if self.watchers.get(key) is watcher:
                    del self.watchers[key]


def get_event_hub(project: Project) -> EventHub:
    """Returns the event hub of a project."""
    return project.get_shared("event hub", EventHub)


@router.get("/starts/{group}/events")
def follow_start(request: Request, group: str) -> StreamingResponse:
    """Streams the state of the runs of a start."""
    project = get_project(request)
    view = GroupLiveView(project, group)
    view.render()  # raises an error if it does not exist
    return stream_response(get_event_hub(project).events(f"start {group}", view))


@router.get("/runs/{run_id}/events")
def follow_run(request: Request, run_id: str) -> StreamingResponse:
    """Streams the state of a run; its numbers include the holdout."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if run.suite.split_rule is not None and run.settings.selection.split != "dev":
            get_session(request).record_access(store, run)  # its page has recorded that already
    return stream_response(get_event_hub(project).events(f"run {run.id}", RunLiveView(project, run.id)))
