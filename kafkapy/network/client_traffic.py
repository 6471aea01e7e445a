"""Counts the bytes of clients, by principal and client id, where metrics are on.

Clients choose their ids, and without logins anybody has the same principal. So there is room for some
principals, and for some client ids of each: those that came first. What is beyond counts under `OTHER`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MOST_PRINCIPALS: Final = 500
MOST_CLIENT_IDS: Final = 20
"""Of one principal."""

LONGEST: Final = 255
"""A longer principal or client id counts as another one."""

OTHER: Final = "(other)"
"""Stands for all for which there is no room."""


class ClientTraffic:
    """The numbers of one client."""

    __slots__ = ("fetched", "produced", "throttled_seconds", "throttles")

    def __init__(self) -> None:
        self.produced = 0
        """The bytes of its Produce requests."""
        self.fetched = 0
        """The bytes of the answers to its Fetch requests."""
        self.throttles = 0
        """How often it has exceeded a quota."""
        self.throttled_seconds = 0.0


class TrafficOfClients:
    """The numbers of all clients of a broker; they belong to the event loop."""

    def __init__(self) -> None:
        self._principals: dict[str, dict[str | None, ClientTraffic]] = {}

    def of(self, principal: str, client_id: str | None) -> ClientTraffic:
        """The numbers of a client."""
        clients = self._principals.get(principal)
        if clients is not None:
            found = clients.get(client_id)
            if found is not None:
                return found
        return self._first_time(principal, client_id)

    def _first_time(self, principal: str, client_id: str | None) -> ClientTraffic:
        principals = self._principals
        if principal not in principals and (len(principals) >= MOST_PRINCIPALS or len(principal) > LONGEST):
            principal = OTHER
        clients = principals.setdefault(principal, {})
        if client_id not in clients and (len(clients) >= MOST_CLIENT_IDS or len(client_id or "") > LONGEST):
            client_id = OTHER
        return clients.setdefault(client_id, ClientTraffic())

    def __iter__(self) -> Iterator[tuple[str, str, ClientTraffic]]:
        """The principal, the client id and the numbers of each."""
        for principal, clients in tuple(self._principals.items()):
            for client_id, traffic in tuple(clients.items()):
                yield principal, client_id or "", traffic
