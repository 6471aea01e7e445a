"""One attempt to log in with one mechanism: tokens of the client, and the answers to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol


class LoginError(Exception):
    """A client may not come in."""

    def __init__(
        self, message: str | None = None, *, reason: str | None = None, is_passing: bool = False
    ) -> None:
        """Make one.

        Args:
            message: for the client, so it tells nothing about users; None: the usual one, about credentials.
            reason: for the log; None: the message.
            is_passing: the client may come in a moment later, so it is not told that it may not.
        """
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.is_passing = is_passing


class Exchange(ABC):
    """One attempt to log in; its steps do not block."""

    name: str | None = None
    """The name of the client; None until it has proved it."""
    claimed: str | None = None
    """The name that the client gives, for the log; None if it has not given one yet."""
    by_token: bool = False
    """Whether the client logs in by a delegation token, in place of its owner."""
    expires_at_ms: int | None = None
    """When what the client has shown no longer counts, in milliseconds since the epoch; None: never."""

    @abstractmethod
    async def step(self, token: bytes) -> bytes | None:
        """The answer to a token; None if the client expects none.

        After SaslAuthenticate it gets an empty one, since each request has an answer.

        Raises:
            LoginError: the client may not come in.
        """


class Mechanism(Protocol):
    """A mechanism of one listener."""

    def begin(self) -> Exchange:
        """A new attempt to log in."""
