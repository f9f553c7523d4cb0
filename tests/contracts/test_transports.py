"""What every transport promises under every loop, held against a collection of hostile endpoints."""

from __future__ import annotations

import pytest

from proctor.targets.transport.protocol import Transport
from support.hostile_endpoints import AIOHTTP_FAULTS, ENDPOINTS, Endpoint
from support.hostile_http import breathe, serve
from support.transports import STAGES, Reply, Stage, exchange, matches

ROWS = [
    pytest.param(
        stage,
        endpoint,
        id=f"{stage.transport}-{stage.loop}-{endpoint.name}",
        marks=[pytest.mark.xfail(reason=AIOHTTP_FAULTS[endpoint.name], strict=False)]
        if stage.transport == "aiohttp" and endpoint.name in AIOHTTP_FAULTS
        else [],
    )
    for stage in STAGES
    for endpoint in ENDPOINTS
]


@pytest.fixture(params=STAGES, ids=lambda stage: f"{stage.transport}-{stage.loop}")
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each transport under each loop."""
    chosen: Stage = request.param
    return chosen


@pytest.mark.parametrize(("stage", "endpoint"), ROWS)
def test_an_endpoint_gives_its_own_answer_or_an_error_and_spoils_no_other_call(
    stage: Stage, endpoint: Endpoint
) -> None:
    async def main(transport: Transport) -> None:
        for by_pieces in (False, True):
            async with serve(endpoint.script) as server:
                outcome = await exchange(transport, server.url, b"mine", by_pieces=by_pieces)
                assert any(matches(outcome, expected) for expected in endpoint.outcomes), outcome
                assert not server.was_flooded
                await breathe(12)
                assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
                assert [request.body for request in server.requests][-1] == b"next"
                assert [request.body for request in server.requests].count(b"mine") <= 1
                if endpoint.is_reusable is not None:
                    assert server.connections == (1 if endpoint.is_reusable else 2)

    stage.run(main)
