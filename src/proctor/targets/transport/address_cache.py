"""Host names → addresses, looked up once in a while."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from itertools import chain, zip_longest
from typing import NamedTuple

_LIFETIME_S = 300.0
"""How long a good answer counts. A failed lookup is forgotten at once."""


class Address(NamedTuple):
    """What a socket connects to."""

    family: int
    sockaddr: tuple[object, ...]


class AddressCache:
    """The addresses of hosts; several callers who ask for one host share a lookup."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[list[Address]]] = {}

    async def find(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of a host in the order to try them; raises OSError if it has none."""
        literal = _parse_literal(host, port)
        if literal is not None:
            return [literal]
        key, loop = (host, port), asyncio.get_running_loop()
        due, addresses = self._entries.get(key, (0.0, []))
        if loop.time() < due:
            return addresses
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = loop.create_task(self._look_up(host, port))
            lookup.add_done_callback(lambda task: self._end_lookup(key, task))
        return await asyncio.shield(lookup)

    def prefer(self, host: str, port: int, address: Address) -> None:
        """Puts the address that took a connection first, so that no later one waits for a dead one."""
        _, addresses = self._entries.get((host, port), (0.0, []))
        if addresses and addresses[0] != address and address in addresses:
            addresses.remove(address)
            addresses.insert(0, address)

    def forget(self, host: str, port: int) -> None:
        """Looks a host up again the next time, as none of its addresses took a connection."""
        self._entries.pop((host, port), None)

    async def aclose(self) -> None:
        """Ends the lookups under way."""
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    async def _look_up(self, host: str, port: int) -> list[Address]:
        loop = asyncio.get_running_loop()
        rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = _interleave([Address(family, sockaddr) for family, _, _, _, sockaddr in rows])
        if not addresses:
            raise OSError(f"{host!r} has no address")
        self._entries[host, port] = loop.time() + _LIFETIME_S, addresses
        return addresses

    def _end_lookup(self, key: tuple[str, int], lookup: asyncio.Task[list[Address]]) -> None:
        del self._lookups[key]
        if not lookup.cancelled():
            lookup.exception()  # all who asked may have gone, and asyncio reports what nobody reads


def _parse_literal(host: str, port: int) -> Address | None:
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    if version == 4:
        return Address(socket.AF_INET, (host, port))
    return None if "%" in host else Address(socket.AF_INET6, (host, port, 0, 0))


def _interleave(addresses: list[Address]) -> list[Address]:
    """Returns the addresses with families in turns, the system's favourite first (RFC 8305, section 4)."""
    unique = list(dict.fromkeys(addresses))
    favourite = [address for address in unique if address.family == unique[0].family]
    rest = [address for address in unique if address.family != unique[0].family]
    return [address for address in chain(*zip_longest(favourite, rest)) if address is not None]
