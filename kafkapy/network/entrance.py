"""How clients come in by a listener: their channel, their principal, and their login."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkapy.network.channel import Channel, PlainChannel
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import RequestHeader

if TYPE_CHECKING:
    from kafkapy.network.connection import Connection

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not said who it is, as Apache Kafka names it."""


class SaslAnswer(NamedTuple):
    """The answer to a token of a login."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    token: bytes | None = b""
    """None: there is none, and the client expects no answer if its tokens have no header."""
    lifetime_ms: int = 0
    """For how many milliseconds the login counts; 0: without an end."""


class Login(Protocol):
    """The login of one connection (security/sasl/login.py)."""

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms of the listener."""

    def handshake(self, mechanism: str, *, raw_tokens: bool) -> ErrorCode:
        """The client has chosen a mechanism; the error, or NONE.

        `raw_tokens` says that its tokens come as frames without a header.
        """

    async def authenticate(self, token: bytes) -> SaslAnswer:
        """Take the next token of the client.

        After a failure the connection ends once the answer is sent.
        """

    def refusal(self, header: RequestHeader) -> str | None:
        """Why a request is not allowed now, so that the connection ends; None if it is allowed."""


class Entrance(Protocol):
    """How clients come in by one listener."""

    def open(self, sock: socket.socket) -> Channel:
        """The channel of a client that has connected; raises OSError."""

    def admit(self, connection: Connection, channel: Channel) -> str | None:
        """Give a client its principal or its login; return why not, or None.

        It is called once, when bytes can be sent.
        """


class OpenEntrance:
    """A PLAINTEXT listener: no encryption, no login."""

    def open(self, sock: socket.socket) -> Channel:
        """The channel of a client that has connected."""
        return PlainChannel(sock)

    def admit(self, _connection: Connection, _channel: Channel) -> None:
        """Everybody comes in, and is anonymous."""
