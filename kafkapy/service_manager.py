"""Tells the service manager, such as systemd, how the broker is.

It names a socket in NOTIFY_SOCKET; without one, nothing is told. Source: sd_notify(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

READY: Final = "READY=1"
"""Clients are served."""
STOPPING: Final = "STOPPING=1"
"""The stop has begun."""


def tell(state: str) -> None:
    """Tell a state; a service manager that does not listen is not waited for."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.sendto(state.encode(), address)
