"""The bytes between a client and this broker.

A connection talks to its client only through a channel, which receives into a buffer, sends bytes, and sends
slices of files. Slices are sent without copying them into Python, if the channel supports that. No method
blocks: it raises BlockingIOError instead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


class Channel(Protocol):
    """The transport to one client.

    All methods except `fileno` and `close` raise OSError if the connection is broken.
    """

    handshake_pending: bool
    """Whether `handshake` must be called when bytes arrive, before anything is received or sent."""

    @property
    def fileno(self) -> int:
        """The descriptor whose readiness the event loop watches."""

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""

    def handshake(self) -> None:
        """Continue the handshake as far as possible without blocking."""

    def receive_into(self, room: memoryview) -> int:
        """Receive bytes; how many, 0 when the client sends no more."""

    def send(self, data: bytes) -> int:
        """Send bytes; how many were taken."""

    def send_gathered(self, parts: Sequence[Part], *, more: bool) -> int:
        """Send bytes from several places; how many were taken.

        `more` says that other bytes follow at once.
        """

    def send_slice(self, part: FileSlice, offset: int, nbytes: int) -> int:
        """Send bytes from `offset` in a slice; return the number sent, 0 at the file's end."""

    def close(self) -> None:
        """Close it."""


class PlainChannel:
    """TCP without encryption.

    Bytes are sent as they are, and file slices with os.sendfile from the page cache.
    """

    __slots__ = ("_socket", "fileno", "receive_into", "send")

    handshake_pending = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fileno = sock.fileno()
        self.receive_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[bytes], int] = sock.send

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""
        host: str = self._socket.getsockname()[0]
        return host.removeprefix("::ffff:")

    def handshake(self) -> None:
        """Does nothing: TCP has no handshake of its own here."""

    def send_gathered(self, parts: Sequence[Part], *, more: bool) -> int:
        """Send bytes from several places; how many were taken.

        With `more`, the kernel waits for further bytes to fill a packet.
        """
        return self._socket.sendmsg(parts, (), _MSG_MORE if more else 0)  # type: ignore[arg-type]

    def send_slice(self, part: FileSlice, offset: int, nbytes: int) -> int:
        """Send bytes of a file from the page cache to the socket, without copying them into Python."""
        return os.sendfile(self.fileno, part.fileno, part.position + offset, nbytes)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
