"""Leads requests to their handlers: two gates, the call, and the answer to a failure.

The first gate (`endpoint`) comes before the request is decoded. It has the connection and the header, and
passes only requests in the table of APIs. The second gate (`call`) comes before the handler, and has the
decoded request too. If there is an authorizer, it passes only what the client has the right to ask
(rights.py).

The failure of a handler is logged, and its client gets UNKNOWN_SERVER_ERROR if the response has an error
field.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import GeneratorType
from typing import Any

from kafkapy import handlers
from kafkapy.handlers.api_versions import unsupported_version
from kafkapy.handlers.context import BrokerParts, RequestContext
from kafkapy.logs.text import shortened
from kafkapy.loop.turns import take_turn
from kafkapy.metadata.store import StoreClosedError
from kafkapy.network.requester import Requester
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey

logger = logging.getLogger(__name__)


class Dispatcher:
    """Dispatches the requests of all connections (see `kafkapy.network.dispatcher.Dispatcher`)."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._served = handlers.served(clustered=broker.clustered, telemetry=broker.telemetry is not None)
        self._right_refusal: Callable[[RequestContext, Any], ErrorCode | None] | None = None
        """The error for a client without the right; None if there is no authorizer."""
        if broker.authorizer is not None:
            from kafkapy.handlers.rights import refusal  # most brokers do not need the table

            self._right_refusal = refusal

    def max_version(self, api_key: int) -> int:
        """The highest version of an API that is served; -1 if none is."""
        api = self._served.get(api_key)
        return -1 if api is None else api.max_version

    def endpoint(self, connection: Requester, header: RequestHeader) -> handlers.Endpoint | None:
        """The first gate: the endpoint of a request that is not decoded yet, or None."""
        login = connection.login
        if login is not None and (why := login.refusal(header)) is not None:
            connection.close(why)
            return None
        api = self._served.get(header.api_key)
        if api is None or not api.min_version <= header.api_version <= api.max_version:
            return None
        if api.coordinates and not self._broker.has_coordinators:
            return handlers.Endpoint(
                api, request_class(api.key), response_class(api.key), self._call_with_coordinators
            )
        return handlers.endpoint(header.api_key)

    def refusal(self, header: RequestHeader) -> tuple[RequestHeader, handlers.Endpoint, Any] | None:
        """The answer to a request that the first gate refused; None if there is none.

        Only ApiVersions has one (KIP-511): every client understands its version 0, and learns from it which
        versions it may use.
        """
        if header.api_key != ApiKey.API_VERSIONS:
            return None
        endpoint = handlers.endpoint(ApiKey.API_VERSIONS)
        broker = self._broker
        answer = unsupported_version(clustered=broker.clustered, telemetry=broker.telemetry is not None)
        return replace(header, api_version=0), endpoint, answer

    def call(
        self, connection: Requester, header: RequestHeader, endpoint: handlers.Endpoint, request: Any
    ) -> Any:
        """The second gate.

        Returns the handler's result, or the answer to its failure.
        """
        context = RequestContext(
            self._broker,
            connection,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            header,
        )
        try:
            error = None
            if self._right_refusal is not None and not connection.is_this_broker:
                error = self._right_refusal(context, request)
            response = (
                endpoint.handle(context, request) if error is None else _refused(context, request, error)
            )
            if type(response) is GeneratorType:
                turns = self._broker.turns
                end = take_turn(response, turns.seconds)
                if end is None:
                    connection.keep_frame()
                    return _finish(turns.go_on(response))
                response = end[0]
        except Exception as error:
            return self.failed(connection, header, endpoint, error)
        return response

    def _call_with_coordinators(self, context: RequestContext, request: Any) -> Awaitable[Any]:
        """Make the coordinators, then call the handler of an API that needs them."""
        context.connection.keep_frame()
        return self._after_coordinators(context, request)

    async def _after_coordinators(self, context: RequestContext, request: Any) -> Any:
        await self._broker.make_coordinators()
        response = handlers.endpoint(context.api_key).handle(context, request)
        if type(response) is GeneratorType:
            response = self._broker.turns.finish(response)
        return await _finish(response)

    def failed(
        self, connection: Requester, header: RequestHeader, endpoint: handlers.Endpoint, error: Exception
    ) -> Any:
        """The answer to a request whose handler failed.

        If the response has no error field, it is None and the connection is closed. So it is if the broker
        stops.
        """
        name = ApiKey(header.api_key).name
        if isinstance(error, StoreClosedError):
            connection.close()  # the broker stops: the client will ask another one
            return None
        if isinstance(error, KafkaError):
            code = error.code
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            logger.error(
                "%s v%d from %s (client id %s) failed",
                name,
                header.api_version,
                connection,
                shortened(header.client_id),
                exc_info=error,
            )
        fields = schema_of(endpoint.response_class).root.fields
        if not any(field.name == "error_code" and header.api_version in field.versions for field in fields):
            connection.close(f"{name} v{header.api_version} has no answer for {code.name}")
            return None
        response = endpoint.response_class()
        response.error_code = code
        return response


def _refused(context: RequestContext, request: Any, error: ErrorCode) -> Any:
    """The answer to a request without the right; its module is imported at the first one."""
    from kafkapy.handlers.refusals import answer

    return answer(context, request, error)


async def _finish(response: Any) -> Any:
    """The answer of a handler, which may be awaitable, and so may be what it returns."""
    while isinstance(response, Awaitable):
        response = await response
    await asyncio.sleep(0)  # a long request is freed apart from the last turn of its handler
    return response
