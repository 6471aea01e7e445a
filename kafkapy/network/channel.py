"""The bytes between a client and this broker.

A connection talks to its client only through a channel, which receives into a buffer, sends bytes, and sends
slices of files. Slices are sent without copying them into Python, if the channel supports that. No method
blocks: it raises BlockingIOError instead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Protocol

from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


class Handshake(Enum):
    """What a handshake needs to continue."""

    WANTS_TO_RECEIVE = auto()
    WANTS_TO_SEND = auto()
    DONE = auto()


class Channel(Protocol):
    """The transport to one client.

    All methods except `fileno` and `close` raise OSError if the connection is broken.
    """

    handshake_pending: bool
    """Whether the handshake must be done before anything is received or sent."""

    flush_bytes: int
    """The most bytes to send in one turn of the event loop, so that one fast reader does not occupy it."""

    @property
    def has_pending(self) -> bool:
        """Whether more can be received at once, which the event loop cannot see."""

    @property
    def fileno(self) -> int:
        """The descriptor whose readiness the event loop watches."""

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate, which is verified, in DER form; None if it gave none."""

    def handshake(self) -> Handshake:
        """Continue the handshake as far as possible without waiting for the client.

        It takes milliseconds of CPU, so a thread calls it, and nothing else is called meanwhile.
        """

    def receive_into(self, room: memoryview) -> int:
        """Receive bytes; how many, 0 when the client sends no more."""

    def fill(self, room: memoryview) -> int:
        """Receive bytes of which more are expected; how many, 0 when the client sends no more."""

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

    __slots__ = ("_socket", "fileno", "fill", "receive_into", "send")

    handshake_pending = False
    has_pending = False
    certificate = None
    flush_bytes = 1 << 20

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fileno = sock.fileno()
        self.receive_into: Callable[[memoryview], int] = sock.recv_into
        self.fill = self.receive_into
        self.send: Callable[[bytes], int] = sock.send

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""
        host: str = self._socket.getsockname()[0]
        return host.removeprefix("::ffff:")

    def handshake(self) -> Handshake:
        """Does nothing: TCP has no handshake of its own here."""
        return Handshake.DONE

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
