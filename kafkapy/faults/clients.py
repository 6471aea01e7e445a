"""Which clients a fault concerns: by client id, address and listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkapy.network.connection import Connection


class Clients(NamedTuple):
    """What is told of a client; None: anything."""

    client_id: str | None = None
    address: str | None = None
    """The host that it connects from."""
    listener: str | None = None
    """The name of the listener that it connects to."""

    def include(self, connection: Connection, client_id: str | None) -> bool:
        """Whether a request of this client id on a connection is of one of them."""
        return self.client_id in (None, client_id) and self.come_in(
            connection.listener.name, connection.peer_host
        )

    def come_in(self, listener: str, host: str) -> bool:
        """Whether a connection to a listener may be of one of them."""
        return self.listener in (None, listener) and self.address in (None, host)
