"""What is measured of the clients that share a quota, and the quota itself.

Clients choose their client ids, so the number of sensors is bounded: beyond MOST, the one that was used the
longest time ago is forgotten, as is one that was not used for an hour. A client that is forgotten begins
anew, with nothing recorded. Of an id that is longer than LONGEST, a digest is kept.

Source: Kafka's ClientQuotaManager.getOrCreateQuotaSensors.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType
from kafkapy.quotas.average import Average

MOST: Final = 10_000
"""The most sensors of one type of quota."""

IDLE_MS: Final = 3_600_000
"""After so long without use, a sensor is forgotten (InactiveSensorExpirationTimeSeconds)."""

LONGEST: Final = 256
"""The most characters of a name that are kept as they are."""

_LEAST: Final = 1e-9
"""A quota of nothing, by which can be divided."""

_QUIET_MS: Final = 60_000
"""How long the log is silent after the failure of a callback."""

_Key = tuple[tuple[str, str], ...]
_UNLIMITED: Final[_Key] = ()
S = TypeVar("S")

logger = logging.getLogger(__name__)


class Sensor(Generic[S]):
    """What is measured of the clients that share one quota."""

    __slots__ = ("generation", "limit", "measured", "throttled", "used_ms")

    def __init__(self, measured: S) -> None:
        self.measured = measured
        self.limit: float | None = None
        """Their quota; None: they are not limited."""
        self.generation = 0
        """That of the quotas when the limit was asked for."""
        self.used_ms = 0
        """When it was used last."""
        self.throttled: Average | None = None
        """For how many milliseconds they were throttled; None: they never were."""


class Sensors(Generic[S]):
    """The sensors of one type of quota."""

    def __init__(
        self,
        quota_type: ClientQuotaType,
        callback: ClientQuotaCallback,
        measure: Callable[[], S],
        *,
        keeps_tags: bool,
    ) -> None:
        """`measure` makes what measures.

        With `keeps_tags`, the tags of a client change only with `update`; otherwise the callback is asked for
        them each time.
        """
        self._quota_type = quota_type
        self._callback = callback
        self._measure = measure
        self._keeps_tags = keeps_tags
        self._sensors: OrderedDict[_Key, Sensor[S]] = OrderedDict()
        """Those that were used last are last."""
        self._keys: dict[tuple[str, str], _Key] = {}
        """The keys of principals and client ids, where tags are kept; _UNLIMITED: they have no quota."""
        self._generation = 0
        """How often quotas have changed."""
        self._failed_ms: int | None = None
        """When the log last had a failure of the callback."""

    def __len__(self) -> int:
        return len(self._sensors)

    def limited(self) -> Iterator[tuple[_Key, Sensor[S]]]:
        """The tags of the clients that share a quota, and their sensor."""
        for key, sensor in tuple(self._sensors.items()):
            if sensor.limit is not None:
                yield key, sensor

    def of(self, principal: str, client_id: str, now_ms: int) -> Sensor[S] | None:
        """The sensor of a client that is limited; None if it is not."""
        key = self._keys.get((principal, client_id))
        if key == _UNLIMITED:
            return None
        sensor = None if key is None else self._sensors.get(key)
        if key is None or sensor is None:
            sensor = self._find(principal, client_id, now_ms)
        else:
            self._sensors.move_to_end(key)
        if sensor is None or sensor.limit is None:
            return None
        sensor.used_ms = now_ms
        return sensor

    def update(self) -> None:
        """Ask for each limit again when it is used next: quotas have changed."""
        self._keys.clear()
        self._generation += 1

    def _find(self, principal: str, client_id: str, now_ms: int) -> Sensor[S] | None:
        try:
            if self._callback.quota_reset_required(self._quota_type):
                self.update()
            tags = self._callback.quota_metric_tags(self._quota_type, principal, client_id)
            key = tuple(sorted((name, _short(value)) for name, value in tags.items()))
        except Exception as error:
            self._log_failure(error, now_ms)
            return None
        sensor = self._sensors.get(key)
        if sensor is None or sensor.generation != self._generation:
            limit = self._limit(tags, now_ms)
        else:
            limit = sensor.limit
        if self._keeps_tags:
            is_limited = limit is not None
            self._keep(principal, client_id, key if is_limited else _UNLIMITED)
            if not is_limited:
                return None
        if sensor is None:
            self._make_room(now_ms)
            sensor = self._sensors[key] = Sensor(self._measure())
            sensor.used_ms = now_ms
        else:
            self._sensors.move_to_end(key)
        sensor.limit, sensor.generation = limit, self._generation
        return sensor

    def _keep(self, principal: str, client_id: str, key: _Key) -> None:
        """Keep the key of a client, unless its names are long."""
        if len(principal) <= LONGEST and len(client_id) <= LONGEST:
            if len(self._keys) >= MOST:
                self._keys.clear()
            self._keys[principal, client_id] = key

    def _make_room(self, now_ms: int) -> None:
        """Forget the sensors that are not used, and the oldest if there are too many."""
        while self._sensors:
            key, oldest = next(iter(self._sensors.items()))
            if len(self._sensors) < MOST and now_ms - oldest.used_ms < IDLE_MS:
                return
            del self._sensors[key]

    def _limit(self, tags: Mapping[str, str], now_ms: int) -> float | None:
        try:
            limit = self._callback.quota_limit(self._quota_type, tags)
            return None if limit is None else max(float(limit), _LEAST)
        except Exception as error:
            self._log_failure(error, now_ms)
            return None

    def _log_failure(self, error: Exception, now_ms: int) -> None:
        if self._failed_ms is None or now_ms - self._failed_ms >= _QUIET_MS:
            self._failed_ms = now_ms
            logger.error(
                "The class of client.quota.callback.class failed; its clients are not throttled",
                exc_info=error,
            )


def _short(name: str) -> str:
    """A name, or the digest of a long one."""
    if len(name) <= LONGEST:
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
