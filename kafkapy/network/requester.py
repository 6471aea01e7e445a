"""The sender of a request, as handlers and logs see it: a client, or this broker itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkapy.configs.listeners import Listener
    from kafkapy.network.entrance import Login


class Sender(Protocol):
    """The connection of a request, as far as a line of a log names it."""

    @property
    def listener(self) -> Listener:
        """The listener by which it came in."""

    @property
    def peer_host(self) -> str:
        """Its address."""

    @property
    def peer_port(self) -> int:
        """Its port."""

    @property
    def local_host(self) -> str:
        """The address by which it came in."""

    @property
    def principal(self) -> str:
        """Its name, after its authentication."""


class Requester(Sender, Protocol):
    """The connection of a request (network/connection.py, inter_broker/loopback.py)."""

    validation_paid_at: float
    """The time at which its debt for validation is paid (loop/validation.py)."""

    software: tuple[str, str] | None
    """The name and the version of the client's software, if it has told them; kept while metrics are on."""

    @property
    def login(self) -> Login | None:
        """Its login; None on a listener without one."""

    @property
    def is_this_broker(self) -> bool:
        """Whether this broker asks itself, which may ask for what clients may not."""

    @property
    def by_token(self) -> bool:
        """Whether it has logged in by a delegation token, and may ask nothing about these."""

    def keep_frame(self) -> None:
        """Keep the bytes of the present request after its handler has returned."""

    def charge(self, values: int) -> bool:
        """Count values of the answer that is being made; False if there is no room for them."""

    def when_closed(self, call: Callable[[], object]) -> None:
        """Call `call()` when the connection has closed."""

    def close(self, why: str | None = None) -> None:
        """Close the connection instead of an answer, and log why."""
