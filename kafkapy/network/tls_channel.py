"""A channel that is encrypted with TLS.

Bytes are encrypted in Python's ssl, record by record (16 KiB). A slice of a file is read, encrypted and sent
in pieces, so that one reader does not occupy the event loop. Where the kernel encrypts (kTLS: Python 3.12 and
later, OpenSSL 3, and a kernel with the module tls), slices go by sendfile, as without encryption.

OpenSSL keeps a record that the socket did not take, and wants the same bytes again. So such a piece is kept,
and sent first when the queue sends again. The queue sends in order, so these are its next bytes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from kafkapy.network.channel import Handshake
from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice

RECORD: Final = 16 << 10
"""The most bytes of one record of TLS."""

READ_AT_ONCE: Final = 256 << 10
"""The most bytes that one call encrypts or decrypts."""

_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_CRYPTO_INFO: Final = 4
"""The bytes of `tls_crypto_info`, the version and the cipher: another size is refused, or gives keys too."""


class TlsChannel:
    """TCP with TLS."""

    __slots__ = ("_piece", "_socket", "encrypted_by_kernel", "fileno", "handshake_pending")

    flush_bytes = 256 << 10

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Take over a connected socket that does not block; the handshake is pending."""
        self._socket = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.fileno = self._socket.fileno()
        self.handshake_pending = True
        self._piece: bytes | None = None
        """The bytes that OpenSSL has encrypted and the socket did not take."""
        self.encrypted_by_kernel = False
        """Whether the kernel encrypts what is sent; known once the handshake is done."""

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""
        host: str = self._socket.getsockname()[0]
        return host.removeprefix("::ffff:")

    @property
    def has_pending(self) -> bool:
        """Whether bytes are decrypted already, which the event loop cannot see."""
        return self._socket.pending() > 0

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate, which is verified, in DER form; None if it gave none."""
        return self._socket.getpeercert(binary_form=True)

    def handshake(self) -> Handshake:
        """Continue the handshake as far as possible; this takes a thread some milliseconds."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return Handshake.WANTS_TO_RECEIVE
        except ssl.SSLWantWriteError:
            return Handshake.WANTS_TO_SEND
        self.encrypted_by_kernel = _encrypts_in_kernel(self._socket)
        return Handshake.DONE

    def receive_into(self, room: memoryview) -> int:
        """Receive bytes; how many, 0 when the client sends no more."""
        return self._receive(room, RECORD)

    def fill(self, room: memoryview) -> int:
        """Receive bytes, as many as there are, for more are expected.

        Some clients make a record of each piece of a request: librdkafka two of each of its records, of which
        one has ten bytes.
        """
        return self._receive(room, 1)

    def _receive(self, room: memoryview, least: int) -> int:
        """Receive records of TLS until one has fewer bytes than `least`: there is hardly more then."""
        total, most = 0, min(len(room), READ_AT_ONCE)
        while total < most:
            try:
                count: int = self._socket.read(  # type: ignore[assignment]
                    most - total, room[total:] if total else room
                )
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if total:
                    return total
                raise BlockingIOError from None
            total += count
            if count < least:
                break
        return total

    def send(self, data: bytes) -> int:
        """Send bytes; how many were taken."""
        return self._send(memoryview(data))

    def send_gathered(self, parts: Sequence[Part], *, more: bool) -> int:
        """Send bytes from several places; how many were taken.

        They share records. `more` makes no difference.
        """
        return self._send(memoryview(b"".join(parts)))  # type: ignore[arg-type]

    def send_slice(self, part: FileSlice, offset: int, nbytes: int) -> int:
        """Send bytes from `offset` in a slice; return the number sent, 0 at the file's end."""
        if self.encrypted_by_kernel and self._piece is None:
            return os.sendfile(self.fileno, part.fileno, part.position + offset, nbytes)
        data = os.pread(part.fileno, min(nbytes, READ_AT_ONCE), part.position + offset)
        return self._send(memoryview(data))

    def close(self) -> None:
        """Say that nothing more follows, and close the socket."""
        with contextlib.suppress(OSError, ValueError):
            if not self.handshake_pending:
                self._socket.unwrap()
        self._socket.close()

    def _send(self, data: memoryview) -> int:
        """Send bytes record by record.

        Raises BlockingIOError if the socket takes none.
        """
        sent = 0
        while sent < len(data):
            piece = self._piece or bytes(data[sent : sent + RECORD])
            try:
                self._socket.send(piece)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._piece = piece
                if sent:
                    return sent
                raise BlockingIOError from None
            self._piece = None
            sent += len(piece)
        return sent


def _encrypts_in_kernel(sock: ssl.SSLSocket) -> bool:
    """Whether the kernel encrypts what is sent."""
    if not hasattr(ssl, "OP_ENABLE_KTLS"):
        return False
    try:
        return bool(sock.getsockopt(_SOL_TLS, _TLS_TX, _CRYPTO_INFO))
    except OSError:
        return False
