"""The quotas that limit a rate: of bytes produced, of bytes fetched, of time.

What is recorded counts in full, and the client is throttled if the rate is above its quota then: for as long
as the rate takes to fall to it, if nothing else is recorded.

Source: ClientQuotaManager, ClientRequestQuotaManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from kafkapy.loop.turns import Steps
from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType
from kafkapy.quotas.average import Average
from kafkapy.quotas.rate import Rate
from kafkapy.quotas.sensors import Sensors


class ShownQuota(NamedTuple):
    """What is measured of the clients that share a quota."""

    tags: Mapping[str, str]
    rate: float
    """What they use in a second."""
    throttle_ms: float
    """For how long they were throttled, on an average."""


class RateQuotas:
    """The quotas of one type."""

    def __init__(
        self,
        quota_type: ClientQuotaType,
        callback: ClientQuotaCallback,
        windows: int,
        seconds: int,
        *,
        keeps_tags: bool,
        is_bounded: bool = False,
    ) -> None:
        """Measure over `windows` windows of `seconds` each.

        `keeps_tags` is that of `Sensors`. With `is_bounded`, nobody is throttled for longer than a window.
        """
        self.sensors = Sensors(
            quota_type, callback, partial(Rate, windows, seconds * 1000), keeps_tags=keeps_tags
        )
        self._windows, self._window_ms = windows, seconds * 1000
        self._most_ms = seconds * 1000 if is_bounded else None
        self._most_seconds = (windows - 1) * seconds

    def record(self, principal: str, client_id: str, value: float, now_ms: int) -> int:
        """Record `value` of a client; return for how long it is throttled."""
        sensor = self.sensors.of(principal, client_id, now_ms)
        if sensor is None:
            return 0
        assert sensor.limit is not None
        sensor.measured.record(value, now_ms)
        throttle_ms = sensor.measured.throttle_ms(sensor.limit, now_ms)
        return throttle_ms if self._most_ms is None else min(throttle_ms, self._most_ms)

    def note(self, principal: str, client_id: str, value: float, now_ms: int) -> None:
        """Record `value`, which may be negative, without an effect on this request."""
        sensor = self.sensors.of(principal, client_id, now_ms)
        if sensor is not None:
            sensor.measured.record(value, now_ms)

    def throttled(self, principal: str, client_id: str, throttle_ms: int, now_ms: int) -> None:
        """Record for how long a client is throttled by its quota of this type."""
        sensor = self.sensors.of(principal, client_id, now_ms)
        if sensor is not None:
            if sensor.throttled is None:
                sensor.throttled = Average(self._windows, self._window_ms)
            sensor.throttled.record(throttle_ms, now_ms)

    def shown(self, now_ms: int) -> Steps[list[ShownQuota]]:
        """What is measured now of all clients that are limited, in steps."""
        found = []
        for tags, sensor in self.sensors.limited():
            yield
            throttled = 0.0 if sensor.throttled is None else sensor.throttled.value(now_ms)
            found.append(ShownQuota(dict(tags), sensor.measured.per_second(now_ms), throttled))
        return found

    def most_at_once(self, principal: str, client_id: str, now_ms: int) -> float | None:
        """The largest value for which a client is not throttled after a pause; None: any."""
        sensor = self.sensors.of(principal, client_id, now_ms)
        return None if sensor is None or sensor.limit is None else sensor.limit * self._most_seconds
