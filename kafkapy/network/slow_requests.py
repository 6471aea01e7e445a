"""Logs the requests that take long, with where the time went.

The logger is that of all requests (kafkapy/logs). A line in JSON has these fields
besides `message`: api, version, principal, host, client_id, bytes, total_ms, and the milliseconds of each
phase (request_metrics.py). At most MOST lines come in a minute; the first one after it says how many are
missing.

A fetch waits for records and a member for others, as they ask to. So what such a request waits for does not
make it slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkapy.logs import REQUESTS
from kafkapy.logs.text import quoted
from kafkapy.network.request_fields import fields_of
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.network.request_metrics import Durations
    from kafkapy.network.requester import Sender

MOST: Final = 30
"""The lines of a minute."""

SECONDS: Final = 60.0

WAIT_AS_ASKED: Final = frozenset(
    {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_ACKNOWLEDGE}
)
"""The APIs of which a request may wait for long because it asks to."""


class SlowRequests:
    """Logs the slow requests of a broker; it belongs to the event loop."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is how long a request may take."""
        self.seconds = seconds
        self._minute_ends = 0.0
        self._logged = 0
        self._missing = 0

    def ended(self, connection: Sender, header: RequestHeader, phases: Durations, now: float) -> None:
        """Log a request that has ended, if it was slow."""
        waited = phases.remote if header.api_key in WAIT_AS_ASKED else 0.0
        if phases.total - waited < self.seconds:
            return
        if now >= self._minute_ends:
            if self._missing:
                REQUESTS.warning("%d other slow requests were not logged", self._missing)
            self._minute_ends, self._logged, self._missing = now + SECONDS, 0, 0
        if self._logged >= MOST:
            self._missing += 1
            return
        self._logged += 1
        fields = fields_of(connection, header, phases)
        REQUESTS.warning(
            "%s v%d of %s from %s (client id %s, %d bytes) took %.1f ms: request queue %.1f, local %.1f, "
            "remote %.1f, response queue %.1f, response send %.1f",
            fields["api"],
            header.api_version,
            quoted(connection.principal),
            connection.peer_host,
            quoted(header.client_id or ""),
            header.nbytes,
            fields["total_ms"],
            fields["request_queue_ms"],
            fields["local_ms"],
            fields["remote_ms"],
            fields["response_queue_ms"],
            fields["response_send_ms"],
            extra={"fields": fields},
        )
