"""The way from a request to its handler: gates, the call, and the answer to a failure.

There are two gates. The first (`endpoint`) is before the request is decoded: it knows the connection and the
header, and lets in only what the table of APIs has. The second (`call`) is in front of the handler: it also
knows what is asked.

A handler that fails is logged, and its client gets UNKNOWN_SERVER_ERROR where the response has a place
for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from types import GeneratorType
from typing import Any

from kafkapy import handlers
from kafkapy.handlers.api_versions import unsupported_version
from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.network.connection import Connection
from kafkapy.process.log_text import shortened
from kafkapy.process.turns import take_turn
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey

logger = logging.getLogger(__name__)


class Dispatcher:
    """Has the requests of all connections handled (`kafkapy.network.dispatcher.Dispatcher`)."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker

    def endpoint(self, header: RequestHeader) -> handlers.Endpoint | None:
        """The first gate: who handles a request that is not decoded yet; None where nobody does."""
        api = handlers.BY_KEY.get(header.api_key)
        if api is None or not api.min_version <= header.api_version <= api.max_version:
            return None
        return handlers.endpoint(header.api_key)

    def refusal(self, header: RequestHeader) -> tuple[RequestHeader, handlers.Endpoint, Any] | None:
        """The answer to a request that the first gate refused; None where its client knows none.

        KIP-511: whatever version of ApiVersions was asked, the client understands version 0 and learns what
        to ask.
        """
        if header.api_key != ApiKey.API_VERSIONS:
            return None
        endpoint = handlers.endpoint(ApiKey.API_VERSIONS)
        return header._replace(api_version=0), endpoint, unsupported_version()

    def call(
        self, connection: Connection, header: RequestHeader, endpoint: handlers.Endpoint, request: Any
    ) -> Any:
        """The second gate, then what the handler returns, or the answer to its failure."""
        context = RequestContext(
            self._broker,
            connection,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
        )
        try:
            response = endpoint.handle(context, request)
            if type(response) is GeneratorType:
                end = take_turn(response)
                if end is None:
                    connection.keep_frame()
                    return _finish(self._broker.turns.go_on(response))
                response = end.value
        except Exception as error:
            return self.failed(connection, header, endpoint, error)
        return response

    def failed(
        self, connection: Connection, header: RequestHeader, endpoint: handlers.Endpoint, error: Exception
    ) -> Any:
        """The answer to a request whose handler failed.

        Where the response has no place for an error it is None, and the connection is closed.
        """
        name = ApiKey(header.api_key).name
        if isinstance(error, KafkaError):
            code = error.code
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            logger.error(
                "%s v%d from %s (client id %s) failed",
                *(name, header.api_version, connection, shortened(header.client_id)),
                exc_info=error,
            )
        fields = schema_of(endpoint.response_class).root.fields
        if not any(field.name == "error_code" and header.api_version in field.versions for field in fields):
            connection.close(f"{name} v{header.api_version} has no answer for {code.name}")
            return None
        response = endpoint.response_class()
        response.error_code = code
        return response


async def _finish(response: Awaitable[Any]) -> Any:
    """What comes of a generator that took turns, which may have to be waited for in its turn."""
    found = await response
    return await found if isinstance(found, Awaitable) else found
