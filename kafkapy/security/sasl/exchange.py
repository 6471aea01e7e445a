"""One attempt to log in with one mechanism: tokens of the client, and the answers to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol


class LoginError(Exception):
    """A client may not come in.

    `message` is shown to the client, so it tells nothing about users; it is None for the usual one, about
    invalid credentials.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.message = message


class Exchange(ABC):
    """One attempt to log in.

    Nothing in it blocks, except where the operator's own class checks a password.
    """

    name: str | None = None
    """The name of the client; None until it has proved it."""
    claimed: str | None = None
    """The name that the client gives, for the log; None if it has not given one yet."""
    by_token: bool = False
    """Whether the client logs in by a delegation token, in place of its owner."""
    expires_at_ms: int | None = None
    """When what the client has shown no longer counts, in milliseconds since the epoch; None: never."""

    @abstractmethod
    async def step(self, token: bytes) -> bytes:
        """The answer to a token.

        Raises:
            LoginError: the client may not come in.
        """


class Mechanism(Protocol):
    """A mechanism of one listener."""

    def begin(self) -> Exchange:
        """A new attempt to log in."""
