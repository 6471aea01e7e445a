"""Ports for brokers that are told theirs, since they are stopped and started again."""

from __future__ import annotations

import contextlib
import random
import socket


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment.

    They lie below those that the kernel gives to outgoing connections: none of these takes one before the
    broker does, or while it is away.
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
