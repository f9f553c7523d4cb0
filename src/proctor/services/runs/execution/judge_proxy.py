"""A proxy through which programs that grade call the run's judges: a server on this machine.

It runs from the first program that may call a judge to the end of the run. Each program has a token of its
own, which is valid while the program runs. The protocol is that of AgentV's target proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from secrets import compare_digest, token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from proctor.codec import prompt_digest
from proctor.errors import TargetError
from proctor.graders.program_payload import output_messages, usage_to_dict
from proctor.model import Case, Judgment, Message, Prompt
from proctor.protocols import JudgeTarget, ProxyGrant
from proctor.services.concurrency import gather_results

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, Response, ServerRunner

_VARIABLE_PREFIXES = ("PROCTOR_PROXY", "AGENTV_TARGET_PROXY")
"""Prefixes of the variables' names; both have the same values."""


class _JudgeQuestion(Struct, frozen=True, rename="camel"):
    question: Annotated[str, Meta(min_length=1)]
    system_prompt: str | None = None
    target: str | None = None
    attempt: Annotated[int, Meta(ge=0)] | None = None


class _QuestionBatch(Struct, frozen=True):
    requests: list[_JudgeQuestion]


class _RequestRefused(Exception):
    """A refused request, with its HTTP status and the reason as a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class JudgeProxy:
    """Implements the protocol `JudgeProvider`; the server starts when it is first needed."""

    def __init__(self) -> None:
        """Creates the proxy without starting its server."""
        self._sessions: list[_ProxySession] = []
        self._start_lock = asyncio.Lock()
        self._runner: ServerRunner | None = None

    @asynccontextmanager
    async def serve_program(
        self, judges: Sequence[JudgeTarget], case: Case, max_calls: int
    ) -> AsyncIterator[ProxyGrant]:
        """Gives one program access to judges; see `JudgeProvider` in `protocols.py`.

        Raises:
            OSError: the server cannot listen on any port.
        """
        url, loan = await self._get_url(), _ProxySession(judges, case, max_calls)
        self._sessions.append(loan)
        variables = {f"{name}_URL": url for name in _VARIABLE_PREFIXES} | {
            f"{name}_TOKEN": loan.token for name in _VARIABLE_PREFIXES
        }
        try:
            yield ProxyGrant(variables, loan.judgments)
        finally:
            self._sessions.remove(loan)
            for request in loan.tasks:
                request.cancel()
            await asyncio.gather(*loan.tasks, return_exceptions=True)

    async def aclose(self) -> None:
        """Stops the server. Safe to call twice."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _get_url(self) -> str:
        from aiohttp import web

        async with self._start_lock:
            if self._runner is None:
                runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=1)
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                self._runner = runner
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _serve(self, request: BaseRequest) -> Response:
        from aiohttp import web

        try:
            return web.json_response(await self._get_session(request).reply(request))
        except web.HTTPRequestEntityTooLarge:
            return web.json_response({"error": "The request has more than 1 MiB. Send less."}, status=413)
        except msgspec.DecodeError as error:
            why = f"The request is not valid: {error}."
            return web.json_response({"error": why}, status=400)
        except _RequestRefused as error:
            return web.json_response({"error": str(error)}, status=error.status)

    def _get_session(self, request: BaseRequest) -> _ProxySession:
        authorization = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        for session in self._sessions:
            if compare_digest(authorization, f"Bearer {session.token}".encode()):
                return session
        raise _RequestRefused(401, "Send the token of the current grading as `Authorization: Bearer TOKEN`.")


class _ProxySession:
    """The judge calls of one program, and their limit."""

    def __init__(self, judges: Sequence[JudgeTarget], case: Case, max_calls: int) -> None:
        self.token = token_urlsafe(32)
        self.judgments: list[Judgment] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self._judges = {judge.name: judge for judge in judges}
        self._case = case
        self._max_calls = max_calls
        self._calls = 0

    async def reply(self, request: BaseRequest) -> dict[str, Any]:
        """Returns the reply to an authorized request; cancelled when the program's session ends."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            match request.method, request.path:
                case "GET", "/info":
                    return {
                        "targetName": next(iter(self._judges)),
                        "maxCalls": self._max_calls,
                        "callCount": self._calls,
                        "availableTargets": list(self._judges),
                    }
                case "POST", "/invoke":
                    return (
                        await self._ask_judges(msgspec.json.decode(await request.read(), type=_JudgeQuestion))
                    )[0]
                case "POST", "/invokeBatch":
                    batch = msgspec.json.decode(await request.read(), type=_QuestionBatch)
                    return {"responses": await self._ask_judges(*batch.requests)}
            raise _RequestRefused(404, "The server has only GET /info, POST /invoke and POST /invokeBatch.")
        finally:
            self.tasks.discard(task)

    async def _ask_judges(self, *questions: _JudgeQuestion) -> list[dict[str, Any]]:
        judges = [self._get_judge(question.target) for question in questions]
        if self._calls + len(questions) > self._max_calls:
            why = (
                f"At most {self._max_calls} judge calls are allowed. {self._calls} were made, and "
                "this request needs"
            )
            raise _RequestRefused(
                429, f"{why} {len(questions)} more. Raise `max_calls` in the `target` of the grader."
            )
        self._calls += len(questions)
        return await gather_results(map(self._ask_judge, judges, questions))

    def _get_judge(self, name: str | None) -> JudgeTarget:
        judge = self._judges.get(name or next(iter(self._judges)))
        if judge is None:
            raise _RequestRefused(
                400, f"There is no target {name!r} here. Expected one of: {', '.join(self._judges)}."
            )
        return judge

    async def _ask_judge(self, judge: JudgeTarget, judge_question: _JudgeQuestion) -> dict[str, Any]:
        system = (
            (Message(role="system", content=judge_question.system_prompt),)
            if judge_question.system_prompt
            else ()
        )
        messages = (*system, Message(role="user", content=judge_question.question))
        try:
            reply = await judge.target.answer(
                Prompt(messages=messages, case_id=self._case.id, repeat=judge_question.attempt or 0)
            )
        except TargetError as error:
            raise _RequestRefused(502, f"The judge {judge.name!r} did not answer: {error}") from error
        judgment = Judgment(
            judge=judge.name,
            prompt_digest=prompt_digest("\n\n".join(message.content for message in messages)),
            nth=len(self.judgments),
            raw=reply.text,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            cached=reply.cached,
        )
        self.judgments.append(judgment)
        return {
            "output": output_messages(reply),
            "rawText": reply.text,
            "tokenUsage": usage_to_dict(reply.usage),
        }
