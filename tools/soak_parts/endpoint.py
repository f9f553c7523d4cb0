"""An endpoint on 127.0.0.1 that speaks OpenAI's interface, answers as `questions` says, and is hostile."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

from aiohttp import web
from tools.soak_parts.questions import FIRST_SEED, answer_to, judge_reply, token_in

JUDGE = "judge-"
"""The model of a run's judge is this and the run's label."""
_MAX_HANG_S = 30.0
_TICK_S = 0.02


class Answer(NamedTuple):
    """An answer that was sent completely."""

    token: str
    repeat: int
    arrived_at: float
    """When its request arrived; both are times of the monotonic clock."""
    sent_at: float


@dataclass(frozen=True)
class Mood:
    """How hostile the endpoint is to the runs of one label."""

    name: str
    share: float
    """The share of the requests that are not answered at once, or never."""
    tricks: tuple[str, ...]
    until: float = float("inf")
    """When it ends, on the monotonic clock."""


CALM = Mood("calm", 0.0, ("slow",))
_MOODS = (
    (6, CALM),
    (2, Mood("slow", 0.5, ("slow", "drip"))),
    (3, Mood("hostile", 0.2, ("429", "500", "503", "reset", "cut", "drip", "slow", "html", "other"))),
    (1, Mood("hanging", 0.05, ("hang",))),
    (1, Mood("busy", 0.3, ("429",))),
)
_HOPELESS = Mood("hopeless", 1.0, ("401",))
_DOWN = Mood("down", 1.0, ("500", "reset"))


def random_mood(random: Random) -> Mood:
    """A mood for a run."""
    if random.random() < 0.04:
        return _HOPELESS
    if random.random() < 0.06:
        return Mood(_DOWN.name, _DOWN.share, _DOWN.tricks, until=monotonic() + random.uniform(0.5, 3))
    return random.choices([mood for _, mood in _MOODS], [weight for weight, _ in _MOODS])[0]


class Endpoint:
    """The server, on an event loop in a thread of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.moods: dict[str, Mood] = {}
        self.answers: defaultdict[str, list[Answer]] = defaultdict(list)
        """The answers sent completely, by label."""
        self._stalls: deque[tuple[float, float]] = deque(maxlen=1000)
        """When this thread was to be woken, and how many seconds later it was."""
        self._tries: Counter[tuple[str, str]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._ready = Event()
        self._port = 0
        self._thread = Thread(target=self._serve, name="endpoint", daemon=True)

    @property
    def url(self) -> str:
        """What stands behind `@` in the word for a target."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Return when it listens."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Return when it has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def stalled_s(self, since: float) -> float:
        """How long in all the machine let this process wait since then; it lets Proctor wait as well."""
        return sum(late_s for at, late_s in list(self._stalls) if at >= since)

    def forget(self, label: str) -> None:
        """Drop what is known of a label that is never asked again."""
        self.answers.pop(label, None)
        self.moods.pop(label, None)

    async def _watch_clock(self) -> None:
        """Note when this loop, which waits only for short times, is woken too late."""
        while True:
            due = monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            late_s = monotonic() - due
            if late_s > _TICK_S:
                self._stalls.append((due, late_s))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        logging.getLogger("aiohttp.server").disabled = True  # connections that are cut are no news here
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        self._loop.run_until_complete(site.start())
        self._port = runner.addresses[0][1]
        watching = self._loop.create_task(self._watch_clock())
        self._ready.set()
        self._loop.run_forever()
        watching.cancel()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        arrived = monotonic()
        body = await request.json()
        label = str(body["model"])
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        token, repeat = token_in(prompt) or "", int(body.get("seed", FIRST_SEED)) - FIRST_SEED
        judging = label.startswith(JUDGE)
        text = judge_reply(prompt) if judging else answer_to(token, repeat)
        random = self._random(label, f"{token}/{repeat}")
        trick = self._trick(label, random)
        whole = await _perform(trick, request, _completion(label, text), random)
        if whole is None:
            whole = await _send(request, _completion(label, text), drip=trick == "drip")
            if whole is not None and not judging:
                self.answers[label].append(Answer(token, repeat, arrived, monotonic()))
        if whole is None:
            raise ConnectionResetError("The client has gone, or was cut off.")
        return whole

    def _random(self, label: str, trial: str) -> Random:
        """The same numbers for the same request in every soak of one seed."""
        self._tries[label, trial] += 1
        return Random(f"{self.seed}/{label}/{trial}/{self._tries[label, trial]}")

    def _trick(self, label: str, random: Random) -> str:
        mood = self.moods.get(label.removeprefix(JUDGE), CALM)
        hostile = random.random() < mood.share and monotonic() < mood.until
        return random.choice(mood.tricks) if hostile else ""


def _completion(model: str, text: str) -> dict[str, Any]:
    return {
        "model": model,
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 4},
    }


async def _perform(
    trick: str, request: web.Request, reply: dict[str, Any], random: Random
) -> web.StreamResponse | None:
    """What a hostile endpoint sends instead of the answer; None where the answer is to follow."""
    if trick == "429":
        return web.Response(status=429, headers={"Retry-After": random.choice("001")}, text="{}")
    if trick.isdigit():
        return web.json_response({"error": {"message": "It is so."}}, status=int(trick))
    if trick == "html":
        return web.Response(text="<html>Not found</html>", content_type="text/html")
    if trick == "other":
        return web.json_response({"choices": "none"})
    if trick == "slow":
        await asyncio.sleep(0.2)
    elif trick == "hang":
        last = monotonic() + _MAX_HANG_S
        while _is_open(request) and monotonic() < last:  # noqa: ASYNC110  # nothing tells of the end
            await asyncio.sleep(0.1)
        _cut(request)
    elif trick == "reset":
        _cut(request)
    elif trick == "cut":
        await _send(request, reply, cut=True)
    return None


async def _send(
    request: web.Request, reply: dict[str, Any], *, drip: bool = False, cut: bool = False
) -> web.StreamResponse | None:
    """Send the reply in two pieces; None where it did not go out whole."""
    data = json.dumps(reply).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(data)
    if not _is_open(request):
        return None
    try:
        await response.prepare(request)
        await response.write(data[:20])
        if drip:
            await asyncio.sleep(0.3)
        if cut:
            _cut(request)
            return None
        await response.write(data[20:])
        await response.write_eof()
    except ConnectionError:
        return None
    return response if _is_open(request) else None


def _is_open(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
