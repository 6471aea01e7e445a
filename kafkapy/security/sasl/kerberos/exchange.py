"""SASL GSSAPI, from the broker's side: a client proves its name by a ticket of Kerberos.

    tokens of Kerberos, until both sides are sure -> the broker offers layers -> the client chooses one

The only layer that is offered is none, as with Apache Kafka: TLS encrypts. The name that a client asks to
act as does not count, since kafka-python and others send that of the broker there. Steps read the keytab and
write to the replay cache, so they run in threads. Source: RFC 4752, Java's GssKrb5Server, Kafka's
SaslServerCallbackHandler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final, Protocol

from kafkapy.security.sasl.exchange import Exchange, LoginError
from kafkapy.security.sasl.kerberos.short_names import ShortNameError, ShortNames

NO_LAYER: Final = 1
"""The bit of a connection that is neither signed nor encrypted by Kerberos."""
OFFER: Final = bytes([NO_LAYER]) + (65536).to_bytes(3)
"""The layers, and the most bytes of a message with one; the same bytes as Java's."""
_LONGEST: Final = 128 << 10
"""The most bytes of a token: tickets of Active Directory have up to 64 KiB."""
_CHOICE: Final = 4
"""The bytes of a layer and a size; the name to act as follows."""


class KerberosError(Exception):
    """Kerberos refuses a token; the message says why."""

    def __init__(self, message: str, *, is_passing: bool = False) -> None:
        """`is_passing` says that a new token may be accepted a moment later."""
        super().__init__(message)
        self.is_passing = is_passing


class SecurityContext(Protocol):
    """One end of a login, in the Kerberos library; calls may block, and raise KerberosError."""

    def step(self, token: bytes | None) -> bytes | None:
        """The answer to a token, or the first token; None if there is none."""

    @property
    def is_complete(self) -> bool:
        """Whether both ends are sure."""

    @property
    def initiator(self) -> str:
        """The full name of the client; it is proved if the context is complete."""

    def wrap(self, message: bytes) -> bytes:
        """The message, signed."""

    def unwrap(self, token: bytes) -> bytes:
        """The message that the other end has signed."""


class Kerberos:
    """GSSAPI for one listener."""

    def __init__(
        self,
        accept: Callable[[], SecurityContext],
        names: ShortNames,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._accept = accept
        self._names = names
        self._in_thread = in_thread

    def begin(self) -> Exchange:
        """A new attempt to log in."""
        return _KerberosExchange(self._accept, self._names, self._in_thread)


class _Stage(Enum):
    PROVING = auto()
    """The client sends tokens of Kerberos."""
    OFFERING = auto()
    """It is sure of the broker, and waits for the layers."""
    CHOOSING = auto()
    """It chooses a layer."""


class _KerberosExchange(Exchange):
    def __init__(
        self,
        accept: Callable[[], SecurityContext],
        names: ShortNames,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._accept = accept
        self._names = names
        self._in_thread = in_thread
        self._context: SecurityContext | None = None
        """Made by the first token."""
        self._stage = _Stage.PROVING

    async def step(self, token: bytes) -> bytes | None:
        if len(token) > _LONGEST:
            raise LoginError(reason=f"its token has {len(token):,} bytes")
        try:
            answer: bytes | None = await self._in_thread(self._take, token)
        except KerberosError as error:
            raise LoginError(reason=str(error), is_passing=error.is_passing) from None
        except ShortNameError as error:
            raise LoginError(reason=str(error)) from None
        return answer

    def _take(self, token: bytes) -> bytes | None:
        """The answer to a token, in a thread; None: there is nothing to say."""
        if self._context is None:
            self._context = self._accept()
        match self._stage:
            case _Stage.PROVING:
                return self._prove(self._context, token)
            case _Stage.OFFERING:
                if token:
                    raise KerberosError("it sent a token where the layers are offered")
                return self._offer(self._context)
            case _Stage.CHOOSING:
                self._choose(self._context, token)
        return None

    def _prove(self, context: SecurityContext, token: bytes) -> bytes:
        answer = context.step(token)
        if not context.is_complete:
            return answer or b""
        self.claimed = context.initiator
        self._stage = _Stage.OFFERING
        # A client that does not ask for proof of the broker gets no token with it.
        return answer or self._offer(context)

    def _offer(self, context: SecurityContext) -> bytes:
        self._stage = _Stage.CHOOSING
        return context.wrap(OFFER)

    def _choose(self, context: SecurityContext, token: bytes) -> None:
        choice = context.unwrap(token)
        if len(choice) < _CHOICE or choice[0] != NO_LAYER:
            raise KerberosError("it chose a layer that was not offered")
        assert self.claimed is not None
        self.name = self._names.short_name(self.claimed)
