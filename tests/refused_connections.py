"""The sockets of connections that are refused, which kafka-python leaves open.

Some are collected at the end of other tests only, where they are warned of.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refused_connections_closed() -> Iterator[None]:
    """Close them meanwhile."""
    from kafka.net.inet import KafkaNetSocket

    connect = KafkaNetSocket.sock_connect

    async def connect_or_close(self: Any, net: Any, sock: socket.socket, *args: Any, **options: Any) -> Any:
        try:
            return await connect(self, net, sock, *args, **options)
        except BaseException:
            sock.close()
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaNetSocket, "sock_connect", connect_or_close)
        yield
