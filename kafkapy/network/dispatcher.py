"""The interface through which connections have requests handled (handlers/dispatch.py)."""

from __future__ import annotations

from typing import Any, Protocol

from kafkapy.protocol.frames import RequestHeader


class Endpoint(Protocol):
    """The handler of one API, as connections see it."""

    @property
    def request_class(self) -> Any: ...

    @property
    def response_class(self) -> Any: ...

    @property
    def abandon(self) -> bool:
        """Whether requests only read, so that they are cancelled when their client goes away."""


class Dispatcher(Protocol):
    """Finds and calls the handlers of requests; implemented by handlers/dispatch.py."""

    def max_version(self, api_key: int) -> int:
        """The highest version of an API that is served; -1 if none is."""

    def endpoint(self, connection: Any, header: RequestHeader) -> Any:
        """The Endpoint of a request of this connection, or None."""

    def refusal(self, header: RequestHeader) -> tuple[RequestHeader, Any, Any] | None:
        """The header, Endpoint and response for a request without an endpoint, or None."""

    def call(self, connection: Any, header: RequestHeader, endpoint: Any, request: Any) -> Any:
        """Call the handler of a decoded request.

        Return its result (see kafkapy/handlers/context.py).
        """

    def failed(self, connection: Any, header: RequestHeader, endpoint: Any, error: Exception) -> Any:
        """The response to a request that failed, or None."""
