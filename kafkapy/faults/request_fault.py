"""A fault of requests: by API, by what they name, and by client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.faults.clients import Clients
from kafkapy.faults.fault import Fault, shown
from kafkapy.faults.filter import Filter
from kafkapy.faults.kinds import Asked, Kind
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.network.connection import Connection
    from kafkapy.protocol.frames import RequestHeader


class Requests(NamedTuple):
    """The requests that a fault concerns."""

    api: ApiKey
    concerned: Filter
    clients: Clients

    def __str__(self) -> str:
        return f"{self.api.name.lower()}({shown({**self.concerned._asdict(), **self.clients._asdict()})})"


class RequestFault(Fault):
    """A fault that meets requests."""

    counted = "requests"

    def __init__(self, requests: Requests, kind: Kind) -> None:
        super().__init__(f"{requests}.{kind}")
        self._requests = requests
        self._kind = kind

    def concerns(self, connection: Connection, header: RequestHeader) -> bool:
        """Whether it may be about a request; on the broker's loop."""
        return header.api_key == self._requests.api and self._requests.clients.include(
            connection, header.client_id
        )

    def meet(self, asked: Asked) -> object:
        """The answer to such a request, or PASSED (kinds.py)."""
        return self._kind.meet(asked, self._requests.concerned, self.takes)
