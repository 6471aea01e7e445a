"""What a log line in JSON has of a request besides its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.network.request_metrics import Durations
    from kafkapy.network.requester import Sender


def fields_of(connection: Sender, header: RequestHeader, phases: Durations) -> dict[str, str | int | float]:
    """The API, who has asked, the bytes, and the milliseconds of each phase."""
    return {
        "api": ApiKey(header.api_key).name,
        "version": header.api_version,
        "principal": connection.principal,
        "host": connection.peer_host,
        "client_id": header.client_id or "",
        "bytes": header.nbytes,
        **{f"{name}_ms": round(seconds * 1000, 1) for name, seconds in phases._asdict().items()},
    }
