"""All quotas of a broker, and the time for which each request's client is throttled.

    producer_byte_rate         the bytes of a Produce request with its header, once it is answered
    consumer_byte_rate         the bytes of records in an answer to Fetch, before it is sent
    request_percentage         the time of the event loop that a request takes: 100 is all of it
    controller_mutation_rate   partitions created and deleted, while the request is handled

The answer says for how long its client is throttled, and is sent at once. The connection's next request waits
for so long (network/in_flight.py, KIP-219), in every version of every API. If several quotas are exceeded,
the longest time counts.

A Fetch that exceeds a quota is answered without records, and what was recorded as fetched is taken back.
Other brokers are exempt from all quotas, and so are the steps of a login, since nobody is logged in yet. The
time of a Produce request with acks=0 is exempt too, as in Apache Kafka.

Source: KafkaApis, RequestHandlerHelper, QuotaFactory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple

from kafkapy.configs.quotas import limit_of
from kafkapy.loop.turns import Steps
from kafkapy.metadata.quotas import IP, ClientQuotas, QuotaEntity
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey
from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType, Cluster
from kafkapy.quotas.default_callback import DefaultQuotaCallback
from kafkapy.quotas.mutation_quotas import MutationQuota, MutationQuotas
from kafkapy.quotas.rate_quotas import RateQuotas, ShownQuota
from kafkapy.quotas.sensors import Sensors
from kafkapy.quotas.timed_steps import TimedSteps

logger = logging.getLogger(__name__)

_EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""The requests of brokers, and of logins."""

_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH


class Windows(NamedTuple):
    """Over which time quotas are measured."""

    windows: int
    """quota.window.num"""
    seconds: int
    """quota.window.size.seconds"""
    controller_windows: int
    """controller.quota.window.num"""
    controller_seconds: int
    """controller.quota.window.size.seconds"""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Windows:
        """Those of a broker's settings."""
        return cls(
            config["quota.window.num"],
            config["quota.window.size.seconds"],
            config["controller.quota.window.num"],
            config["controller.quota.window.size.seconds"],
        )


class QuotaManagers:
    """The quotas of all types."""

    def __init__(
        self,
        windows: Windows,
        callback: ClientQuotaCallback | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`callback` is the operator's; None: Kafka's precedence."""
        keeps_tags = callback is None
        self._callback = callback or DefaultQuotaCallback()
        self._now = now
        rates = {
            quota_type: RateQuotas(
                quota_type,
                self._callback,
                windows.windows,
                windows.seconds,
                keeps_tags=keeps_tags,
                is_bounded=quota_type is ClientQuotaType.REQUEST,
            )
            for quota_type in (ClientQuotaType.PRODUCE, ClientQuotaType.FETCH, ClientQuotaType.REQUEST)
        }
        self.produce = rates[ClientQuotaType.PRODUCE]
        self.fetch = rates[ClientQuotaType.FETCH]
        self.request = rates[ClientQuotaType.REQUEST]
        self.mutation = MutationQuotas(
            self._callback,
            windows.controller_windows,
            windows.controller_seconds,
            self._now_ms,
            keeps_tags=keeps_tags,
        )
        self._sensors: dict[ClientQuotaType, Sensors[Any]] = {
            **{quota_type: each.sensors for quota_type, each in rates.items()},
            ClientQuotaType.CONTROLLER_MUTATION: self.mutation.sensors,
        }

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    # --- requests -----------------------------------------------------------------------------------------

    def throttle_ms(self, principal: str, header: RequestHeader, response: Any) -> int:
        """Record a request that is answered; return how long its client is throttled.

        `response` is None without an answer, and a list if it is encoded already. What its handler has
        measured is in it.
        """
        api_key = header.api_key
        if api_key in _EXEMPT or header.is_exempt:
            return 0
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if api_key == _FETCH and not getattr(response, "error_code", 0):
            return throttle_ms  # its time was recorded before it was made
        now = self._now()
        now_ms, client_id = int(now * 1000), header.client_id
        produced = 0
        if api_key == _PRODUCE:
            produced = self.produce.record(principal, client_id, header.nbytes, now_ms)
            if response is None:
                return self._longest(principal, client_id, now_ms, throttle_ms, self.produce, produced, 0)
        used = self.request.record(principal, client_id, header.busy_seconds(now) * 100, now_ms)
        return self._longest(principal, client_id, now_ms, throttle_ms, self.produce, produced, used)

    def note_time(self, principal: str, header: RequestHeader, seconds: float) -> None:
        """Record the time that the answer to a request took to encode and send."""
        if header.api_key not in _EXEMPT and not header.is_exempt:
            self.request.note(principal, header.client_id, seconds * 100, self._now_ms())

    def throttle_fetch_ms(self, principal: str, header: RequestHeader, nbytes: int) -> int:
        """Record a Fetch with so many bytes of records; return how long its client is throttled.

        If that is not 0, it is answered without records, and they do not count.
        """
        now = self._now()
        now_ms, client_id = int(now * 1000), header.client_id
        used = self.request.record(principal, client_id, header.busy_seconds(now) * 100, now_ms)
        fetched = self.fetch.record(principal, client_id, nbytes, now_ms)
        throttle_ms = self._longest(principal, client_id, now_ms, 0, self.fetch, fetched, used)
        if throttle_ms > 0:
            self.fetch.note(principal, client_id, -nbytes, now_ms)
        return throttle_ms

    def _longest(
        self,
        principal: str,
        client_id: str,
        now_ms: int,
        throttle_ms: int,
        of_bytes: RateQuotas,
        by_bytes: int,
        by_time: int,
    ) -> int:
        """The longest of three throttle times.

        If bytes or time throttle the client, the quota whose time is longer counts it, as in Apache Kafka.
        """
        if by_bytes or by_time:
            counts = of_bytes if by_bytes > by_time else self.request
            counts.throttled(principal, client_id, max(by_bytes, by_time), now_ms)
        return max(throttle_ms, by_bytes, by_time)

    def shown(self) -> Steps[dict[ClientQuotaType, list[ShownQuota]]]:
        """What is measured now of the clients that are limited, in steps."""
        found, now_ms = {}, self._now_ms()
        for quota_type, quotas in (
            (ClientQuotaType.PRODUCE, self.produce),
            (ClientQuotaType.FETCH, self.fetch),
            (ClientQuotaType.REQUEST, self.request),
        ):
            found[quota_type] = yield from quotas.shown(now_ms)
        return found

    def timed(self, coroutine: Coroutine[Any, Any, Any], header: RequestHeader) -> Coroutine[Any, Any, Any]:
        """The coroutine of a request, whose time on the event loop counts."""
        return TimedSteps(coroutine, header)

    def most_fetched(self, principal: str, client_id: str) -> float | None:
        """The most bytes that an answer to Fetch may have without exceeding the quota; None: any."""
        return self.fetch.most_at_once(principal, client_id, self._now_ms())

    def mutations_of(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota:
        """The quota of partitions that one request of a client may create or delete."""
        return self.mutation.of(principal, client_id, is_strict=is_strict)

    # --- changes ------------------------------------------------------------------------------------------

    def follow(self, old: ClientQuotas, new: ClientQuotas) -> Steps[None]:
        """Take the quotas that have changed, an entity in each step; they count after the last one."""
        touched: set[ClientQuotaType] = set()
        nothing: Mapping[str, str] = {}
        for entity in new.changed_since(old):
            yield
            before, after = old.configs.get(entity, nothing), new.configs.get(entity, nothing)
            if before is not after:
                touched |= self._take(entity, before, after)
        for quota_type in touched:
            self._sensors[quota_type].update()

    def _take(
        self, entity: QuotaEntity, before: Mapping[str, str], after: Mapping[str, str]
    ) -> set[ClientQuotaType]:
        """Take the quotas of an entity that have changed; return their types."""
        if entity[0][0] == IP:
            return set()
        touched = set()
        for quota_type in ClientQuotaType:
            name = quota_type.value
            if before.get(name) != after.get(name):
                touched.add(quota_type)
                self._set(quota_type, dict(entity), limit_of(after.get(name)))
        return touched

    def _set(self, quota_type: ClientQuotaType, names: Mapping[str, str | None], limit: float | None) -> None:
        try:
            if limit is None:
                self._callback.remove_quota(quota_type, names)
            else:
                self._callback.update_quota(quota_type, names, limit)
        except Exception:
            logger.exception("The class of client.quota.callback.class has not taken a quota")

    def follow_cluster(self, cluster: Cluster) -> None:
        """Give the cluster as it is now to the operator's callback."""
        if self._callback.update_cluster_metadata(cluster):
            for sensors in self._sensors.values():
                sensors.update()
