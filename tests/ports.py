"""Free ports for brokers that must have the same port after a restart."""

from __future__ import annotations

import contextlib
import random
import socket


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment.

    They are below the ports that the kernel gives to outgoing connections, so no connection takes one before
    the broker starts, or while it is stopped.
    """
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            each = stack.enter_context(socket.socket())
            port = random.randrange(10_000, 32_768)
            with contextlib.suppress(OSError):
                each.bind(("127.0.0.1", port))
                ports.append(port)
        return ports
