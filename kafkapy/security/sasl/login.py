"""The login of one connection: what is allowed when, and when it must be repeated.

    SaslHandshake names the mechanism -> SaslAuthenticate carries tokens -> the client is in

Until then only these and ApiVersions are allowed, and sasl.server.max.receive.size bytes at most. After
version 0 of SaslHandshake, tokens come as frames without a header.

With connections.max.reauth.ms the login ends, and only a new login is allowed then. It must have the same
mechanism and give the same principal (KIP-368).

A failed login is answered after connection.failed.authentication.delay.ms, and the connection is closed.
Source: Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.logs.text import quoted, shortened
from kafkapy.loop.clock import Clock
from kafkapy.network.connection import Connection
from kafkapy.network.entrance import SaslAnswer
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey
from kafkapy.security.sasl.exchange import Exchange, LoginError, Mechanism

_BEFORE: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""The requests that are allowed before a login, and after it has ended."""

_SIZE: Final = struct.Struct(">i")

logger = logging.getLogger(__name__)


class LoginLimits(NamedTuple):
    """What the settings of a listener say of logins."""

    most_bytes: int
    """The largest request before the login."""
    failure_seconds: float
    """The time after which a failed login is answered."""
    lifetimes_ms: Mapping[str, int]
    """How long a login counts, by its mechanism; 0: without an end."""


class SaslLogin:
    """The login of one connection."""

    def __init__(
        self, connection: Connection, mechanisms: Mapping[str, Mechanism], limits: LoginLimits, clock: Clock
    ) -> None:
        self._connection = connection
        self._mechanisms = mechanisms
        self._limits = limits
        self._clock = clock
        self._mechanism: str | None = None
        """The mechanism that the client has chosen."""
        self._exchange: Exchange | None = None
        """The attempt that is under way."""
        self._is_in = False
        self._ends_at_ms: int | None = None
        connection.max_frame_bytes = limits.most_bytes

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms of the listener."""
        return list(self._mechanisms)

    def refusal(self, header: RequestHeader) -> str | None:
        """Why a request is not allowed now, so that the connection ends; None if it is allowed."""
        if self._is_in and (self._ends_at_ms is None or self._clock.now_ms() < self._ends_at_ms):
            return None
        if header.api_key in _BEFORE:
            return None
        when = "after its login has ended" if self._is_in else "before its login"
        return f"it sent a request (API key {header.api_key}) {when}"

    def handshake(self, mechanism: str, *, raw_tokens: bool) -> ErrorCode:
        """The client has chosen a mechanism; the error, or NONE.

        `raw_tokens` says that its tokens come as frames without a header.
        """
        if self._is_in and self._ends_at_ms is None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if self._exchange is not None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self._is_in and mechanism != self._mechanism:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism = mechanism
        self._exchange = self._mechanisms[mechanism].begin()
        if raw_tokens:
            self._connection.take_frames(self._take_token)
        return ErrorCode.NONE

    async def authenticate(self, token: bytes) -> SaslAnswer:
        """Take the next token of the client.

        After a failure the connection ends once the answer is sent.
        """
        exchange = self._exchange
        if exchange is None:
            self._connection.finish()
            return SaslAnswer(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received before a SaslHandshake"
            )
        try:
            answer = await exchange.step(token)
            if exchange.name is None:
                return SaslAnswer(token=answer)
            return SaslAnswer(token=answer, lifetime_ms=self._come_in(exchange.name, exchange))
        except LoginError as error:
            return await self._fail(error, exchange.claimed)

    def _come_in(self, name: str, exchange: Exchange) -> int:
        """The client has proved who it is; return for how many milliseconds that counts.

        Raises:
            LoginError: it was somebody else before.
        """
        connection, principal = self._connection, f"User:{name}"
        if self._is_in and principal != connection.principal:
            raise LoginError(
                f"Cannot change principals during re-authentication from {connection.principal}: {principal}"
            )
        assert self._mechanism is not None
        now = self._clock.now_ms()
        lifetime_ms = self._limits.lifetimes_ms[self._mechanism]
        if exchange.expires_at_ms is not None:
            left_ms = max(exchange.expires_at_ms - now, 1)
            lifetime_ms = min(lifetime_ms, left_ms) if lifetime_ms else left_ms
        self._ends_at_ms = now + lifetime_ms if lifetime_ms else None
        self._exchange = None
        self._is_in = True
        connection.principal, connection.by_token = principal, exchange.by_token
        connection.let_in()
        logger.debug(
            "%s has logged in by %s as %s",
            connection,
            self._mechanism,
            quoted(name),
            extra={"fields": self._fields("accepted", name)},
        )
        return lifetime_ms

    def _fields(self, result: str, user: str | None) -> dict[str, str | None]:
        """What a line about a login says to machines."""
        return {
            "user": None if user is None else shortened(user),
            "host": self._connection.peer_host,
            "mechanism": self._mechanism,
            "result": result,
        }

    async def _fail(self, error: LoginError, claimed: str | None) -> SaslAnswer:
        self._exchange, self._is_in = None, False
        message = error.message
        if message is None:
            message = (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism"
                f" {self._mechanism}"
            )
        as_whom = "" if claimed is None else f" as {quoted(claimed)}"
        reason = error.reason or message
        logger.log(
            self._connection.complaint_level(f"{self._mechanism}{as_whom}: {reason}"),
            "The login of %s by %s%s failed: %.300s",
            self._connection,
            self._mechanism,
            as_whom,
            reason,
            extra={"fields": self._fields("failed", claimed)},
        )
        if error.is_passing:
            # Without an answer, the client connects again. Source: Kafka's SaslServerAuthenticator.
            self._connection.close()
        await asyncio.sleep(self._limits.failure_seconds)
        self._connection.finish()
        return SaslAnswer(ErrorCode.SASL_AUTHENTICATION_FAILED, message)

    # --- tokens without a header --------------------------------------------------------------------------

    def _take_token(self, frame: memoryview) -> None:
        """A frame is a token; the next one waits for the answer."""
        self._connection.mute()
        answering = asyncio.ensure_future(self._answer_token(bytes(frame)))
        self._connection.when_closed(answering.cancel)

    async def _answer_token(self, token: bytes) -> None:
        answer = await self.authenticate(token)
        if answer.error_code:
            self._connection.close()
            return
        if self._is_in:
            self._connection.take_frames(None)
        if answer.token is not None:
            self._connection.send([_SIZE.pack(len(answer.token)) + answer.token])
        self._connection.unmute()
