"""Who has requests handled, as connections know it (kafkapy/handlers/dispatch.py)."""

from __future__ import annotations

from typing import Any, Protocol

from kafkapy.protocol.frames import RequestHeader


class Endpoint(Protocol):
    """Who handles the requests of one API."""

    @property
    def request_class(self) -> Any: ...

    @property
    def response_class(self) -> Any: ...

    @property
    def abandon(self) -> bool:
        """Whether a request changes nothing, so that it ends when its client goes away."""


class Dispatcher(Protocol):
    """Has requests handled; handlers/dispatch.py says how."""

    def endpoint(self, header: RequestHeader) -> Any:
        """The Endpoint of a request, or None."""

    def refusal(self, header: RequestHeader) -> tuple[RequestHeader, Any, Any] | None:
        """Header, Endpoint and response that answer a request without an endpoint, or None."""

    def call(self, connection: Any, header: RequestHeader, endpoint: Any, request: Any) -> Any:
        """What becomes of a decoded request (kafkapy/handlers/context.py says what that may be)."""

    def failed(self, connection: Any, header: RequestHeader, endpoint: Any, error: Exception) -> Any:
        """The response to a request that failed, or None."""
