"""Which clients a fault concerns: by client id, address and listener."""

from __future__ import annotations

import ipaddress
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

    @classmethod
    def of(cls, client_id: str | None, address: str | None, listener: str | None) -> Clients:
        """Those that a test names.

        Raises:
            ValueError: no client connects from such an address.
        """
        if address == "localhost" or (address is not None and ":" in address and not _is_ip(address)):
            raise ValueError(f"address={address}: expected the IP address of a client, such as 127.0.0.1")
        return cls(client_id, address, listener)

    def include(self, connection: Connection, client_id: str | None) -> bool:
        """Whether a request of this client id on a connection is of one of them."""
        return self.client_id in (None, client_id) and self.come_in(
            connection.listener.name, connection.peer_host
        )

    def come_in(self, listener: str, host: str) -> bool:
        """Whether a connection to a listener may be of one of them."""
        return self.listener in (None, listener) and self.address in (None, host)


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
