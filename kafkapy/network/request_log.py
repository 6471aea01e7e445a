"""Logs every request with its answer, while its logger has the level DEBUG.

    Completed request:{"requestHeader":{…},"request":{…},"response":{…},"connection":"…","totalTimeMs":…,…}

The object has the names of Apache Kafka's request logger, whose lines begin in the same way. What a request
is shown as is text before its handler's turn has ended: later its bytes may be those of another one. Secrets
and records are never shown (network/shown_message.py). A line in JSON has fields besides
(network/request_fields.py).

Source: RequestChannel, RequestConvertToJson.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkapy.configs.listeners import format_address
from kafkapy.logs import REQUESTS
from kafkapy.logs.text import shortened
from kafkapy.network.request_fields import fields_of
from kafkapy.network.shown_message import shown_message
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.frames import RequestHeader, decode_response
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.types import ApiKey, Part

if TYPE_CHECKING:
    from kafkapy.network.request_metrics import Durations
    from kafkapy.network.requester import Sender

MOST_DECODED: Final = 16 << 10
"""The most bytes of an encoded answer that is decoded, to be shown."""


class RequestLog:
    """Logs the requests of a broker; it belongs to the event loop."""

    def handled(self, header: RequestHeader, request: TopMessage) -> None:
        """Keep what is shown of a request: its handler has returned."""
        header.shown = _json(shown_message(request, header.api_version))

    def ended(self, connection: Sender, header: RequestHeader, response: Any, phases: Durations) -> None:
        """Log a request that has ended; one that began before the logger had its level is left out."""
        request = getattr(header, "shown", None)
        if request is None:
            return
        listener = connection.listener
        here = format_address(connection.local_host, listener.port)
        there = format_address(connection.peer_host, connection.peer_port)
        shown_header = {
            "requestApiKey": header.api_key,
            "requestApiVersion": header.api_version,
            "correlationId": header.correlation_id,
            "clientId": shortened(header.client_id),
            "requestApiKeyName": ApiKey(header.api_key).name,
        }
        rest = {
            "connection": f"{here}-{there}",
            "totalTimeMs": _milliseconds(phases.total),
            "requestQueueTimeMs": _milliseconds(phases.request_queue),
            "localTimeMs": _milliseconds(phases.local),
            "remoteTimeMs": _milliseconds(phases.remote),
            "responseQueueTimeMs": _milliseconds(phases.response_queue),
            "sendTimeMs": _milliseconds(phases.response_send),
            "requestSizeBytes": header.nbytes,
            "securityProtocol": listener.protocol.name,
            "principal": shortened(connection.principal),
            "listener": listener.name,
        }
        REQUESTS.debug(
            'Completed request:{"requestHeader":%s,"request":%s,"response":%s,%s',
            _json(shown_header),
            request,
            _json(_shown_answer(header, response)),
            _json(rest)[1:],
            extra={"fields": fields_of(connection, header, phases)},
        )


def _shown_answer(header: RequestHeader, response: Any) -> Any:
    """What is shown of an answer; of a long one that is encoded already, the size."""
    if type(response) is not list:
        return None if response is None else shown_message(response, header.api_version)
    parts: list[Part] = response
    nbytes = sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)
    if nbytes <= MOST_DECODED and all(isinstance(part, (bytes, memoryview)) for part in parts):
        frame = b"".join(part for part in parts if isinstance(part, (bytes, memoryview)))
        try:
            _, message = decode_response(header.api_key, header.api_version, frame[4:])
        except DecodeError:
            pass  # an answer in a version that the client has not asked for
        else:
            return shown_message(message, header.api_version)
    return f"({nbytes} bytes)"


def _json(shown: Any) -> str:
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
