"""What counts for which quota, whose quota it is, and how much is kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from kafkapy.loop.turns import at_once
from kafkapy.metadata.quotas import ClientQuotas, QuotaEntity, quota_entity
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages.heartbeat import HeartbeatResponse
from kafkapy.protocol.messages.produce import ProduceResponse
from kafkapy.protocol.types import ApiKey
from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType, Cluster
from kafkapy.quotas.managers import QuotaManagers, Windows
from kafkapy.quotas.sensors import IDLE_MS, LONGEST, MOST

ALICE = "User:alice"
NOBODY = "User:ANONYMOUS"


class World:
    """The quotas of a broker, in a time of the test's own."""

    def __init__(self, callback: ClientQuotaCallback | None = None) -> None:
        self.now = 1000.0
        self.managers = QuotaManagers(Windows(11, 1, 11, 1), callback, now=lambda: self.now)
        self._quotas = ClientQuotas()

    def set(self, name: str, value: float | None, **entity: str | None) -> None:
        """Set a quota of a user or a client, or remove it."""
        key: QuotaEntity = quota_entity({kind.replace("_", "-"): each for kind, each in entity.items()})
        content = None if value is None else {name: str(value)}
        new = self._quotas.with_changes({quota_entity({"user": entity.get("user")}): {}, key: content})
        at_once(self.managers.follow(self._quotas, new))
        self._quotas = new

    def request(
        self,
        key: ApiKey = ApiKey.PRODUCE,
        nbytes: int = 0,
        *,
        user: str = ALICE,
        client_id: str = "c",
        seconds: float = 0.0,
        response: Any = ProduceResponse(),  # noqa: B008
        **fields: Any,
    ) -> int:
        """Record a request that took so long; for how many milliseconds its client is throttled."""
        arrived_at = self.now - seconds
        header = RequestHeader(key, 9, 7, client_id, nbytes=nbytes, arrived_at=arrived_at, **fields)
        return self.managers.throttle_ms(user, header, response)


def test_the_bytes_of_produce_requests_count() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, user="alice")
    assert world.request(nbytes=10_000) == 0  # no more than the rate allows in ten windows
    assert world.request(nbytes=1000) == 1000
    assert world.request(ApiKey.HEARTBEAT, nbytes=5000, response=HeartbeatResponse()) == 0
    assert world.request(nbytes=5000, user="User:bob") == 0
    world.now += 11
    assert world.request(nbytes=0) == 0


def test_a_produce_request_without_an_answer_counts_in_bytes_and_not_in_time() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, user="alice")
    assert world.request(nbytes=12_000, response=None) == 2000
    world.set("producer_byte_rate", None, user="alice")
    world.set("request_percentage", 1, user="alice")
    assert world.request(seconds=5, response=None) == 0


def test_the_quota_that_throttles_longer_counts_the_throttle_time() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, user="alice")
    world.set("request_percentage", 1, user="bob")
    assert world.request(nbytes=11_000) == 1000
    assert world.request(nbytes=1000) == 2000
    assert world.request(user="User:bob", seconds=5) == 1000
    found = at_once(world.managers.shown())
    (alice,) = found[ClientQuotaType.PRODUCE]
    (bob,) = found[ClientQuotaType.REQUEST]
    assert (dict(alice.tags), alice.rate, alice.throttle_ms) == (
        {"user": "alice", "client-id": ""},
        1200,
        1500,
    )
    assert (dict(bob.tags), bob.throttle_ms) == ({"user": "bob", "client-id": ""}, 1000)
    assert found[ClientQuotaType.FETCH] == []
    world.now += 30
    (alice,) = at_once(world.managers.shown())[ClientQuotaType.PRODUCE]
    assert (alice.rate, alice.throttle_ms) == (0, 0)


def test_the_longest_time_counts_and_that_of_time_is_no_longer_than_a_window() -> None:
    world = World()
    world.set("request_percentage", 1, user="alice")
    answer = HeartbeatResponse()
    assert world.request(ApiKey.HEARTBEAT, seconds=0.1, response=answer) == 0  # 10 % s in 10 s
    assert world.request(ApiKey.HEARTBEAT, seconds=0.005, response=answer) == 500
    assert world.request(ApiKey.HEARTBEAT, seconds=50, response=answer) == 1000
    answer.throttle_time_ms = 7000  # what its handler has measured
    assert world.request(ApiKey.HEARTBEAT, response=answer) == 7000


def test_only_the_event_loops_time_counts() -> None:
    world = World()
    world.set("request_percentage", 1, user="alice")
    waited: dict[str, Any] = {"seconds": 500.0, "response": HeartbeatResponse()}
    assert world.request(ApiKey.HEARTBEAT, **waited, spent=0.05) == 0
    resumed_at = world.now - 0.06
    assert world.request(ApiKey.HEARTBEAT, **waited, spent=0.05, resumed_at=resumed_at) == 1000


def test_brokers_and_logins_are_exempt() -> None:
    world = World()
    world.set("request_percentage", 0.001, user=None)
    for key in (ApiKey.WRITE_TXN_MARKERS, ApiKey.ALTER_PARTITION, ApiKey.SASL_HANDSHAKE):
        assert world.request(key, seconds=5, response=HeartbeatResponse()) == 0
    assert world.request(ApiKey.FETCH, seconds=5, response=HeartbeatResponse(), is_exempt=True) == 0
    assert world.request(ApiKey.HEARTBEAT, seconds=5, response=HeartbeatResponse()) > 0


def test_what_a_throttled_fetch_has_read_does_not_count() -> None:
    world = World()
    world.set("consumer_byte_rate", 1000, client_id="c")
    header = RequestHeader(ApiKey.FETCH, 12, 7, "c", arrived_at=world.now)
    assert world.managers.most_fetched(NOBODY, "c") == 10_000
    assert world.managers.most_fetched(NOBODY, "other") is None
    assert world.managers.throttle_fetch_ms(NOBODY, header, 10_000) == 0
    assert [world.managers.throttle_fetch_ms(NOBODY, header, 10_000) for _ in range(3)] == [10_000] * 3
    world.now += 5
    assert world.managers.throttle_fetch_ms(NOBODY, header, 0) == 0


def test_a_client_that_has_not_logged_in_is_the_user_anonymous() -> None:
    world = World()
    world.set("producer_byte_rate", 1, user="ANONYMOUS")
    assert world.request(nbytes=1000, user=NOBODY) > 0


def test_a_changed_quota_counts_at_once_and_what_was_recorded_stays() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, client_id=None)
    assert world.request(nbytes=9000) == 0
    world.set("producer_byte_rate", 500, client_id=None)
    assert world.request() == 8000
    world.set("producer_byte_rate", 100_000, client_id="c")
    assert world.request() == 0
    world.set("producer_byte_rate", None, client_id="c")
    assert world.request() == 8000
    world.set("producer_byte_rate", None, client_id=None)
    assert world.request() == 0


def test_a_client_that_changes_its_id_each_time_lets_nothing_grow() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, client_id=None)
    for number in range(MOST + 500):
        world.request(client_id=f"{number}")
    sensors = world.managers.produce.sensors
    assert len(sensors) == MOST
    assert len(sensors._keys) <= MOST
    assert world.request(nbytes=20_000, client_id=f"{MOST + 499}") > 0


def test_of_a_long_client_id_little_is_kept() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, client_id=None)
    long, other = "x" * 30_000, "x" * 29_999 + "y"
    assert world.request(nbytes=20_000, client_id=long) == 10_000
    assert world.request(client_id=long) == 10_000
    assert world.request(client_id=other) == 0
    sensors = world.managers.produce.sensors
    assert not sensors._keys
    assert all(len(value) <= LONGEST for key in sensors._sensors for _, value in key)


def test_a_client_that_has_been_away_for_an_hour_is_forgotten() -> None:
    world = World()
    world.set("producer_byte_rate", 1000, client_id=None)
    world.request(client_id="old")
    world.request(client_id="alive")
    world.now += IDLE_MS / 2000
    world.request(client_id="alive")
    world.now += IDLE_MS / 2000
    world.request(client_id="new")
    names = {dict(key)["client-id"] for key in world.managers.produce.sensors._sensors}
    assert names == {"alive", "new"}


@pytest.mark.parametrize("text", ["0", "nan", "-1", "many"])
def test_a_quota_that_is_no_number_above_zero_breaks_nothing(text: str) -> None:
    world = World()
    entity = quota_entity({"user": "alice"})
    at_once(
        world.managers.follow(
            ClientQuotas(), ClientQuotas().with_changes({entity: {"producer_byte_rate": text}})
        )
    )
    assert world.request(nbytes=1) == (2**31 - 1 if text == "0" else 0)


# --- an operator's callback ---------------------------------------------------------------------------------


class Tenants(ClientQuotaCallback):
    """Clients share a quota by the beginning of their id."""

    def __init__(self) -> None:
        self.limits: dict[str, float] = {"gold": 1000}
        self.is_stale = False
        self.events: list[Any] = []

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: str, client_id: str
    ) -> Mapping[str, str]:
        if client_id == "broken":
            raise LookupError(client_id)
        return {"tenant": client_id.partition("-")[0], "who": principal}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        return self.limits.get(metric_tags["tenant"]) if quota_type is ClientQuotaType.PRODUCE else None

    def update_quota(
        self, quota_type: ClientQuotaType, entity: Mapping[str, str | None], new_value: float
    ) -> None:
        self.events.append((quota_type, dict(entity), new_value))

    def remove_quota(self, quota_type: ClientQuotaType, entity: Mapping[str, str | None]) -> None:
        self.events.append((quota_type, dict(entity)))

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        is_stale, self.is_stale = self.is_stale, False
        return is_stale

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        self.limits["gold"] = 1000 * len(cluster.leaders)
        return True


def test_clients_with_the_same_tags_share_a_quota() -> None:
    world = World(Tenants())
    assert world.request(nbytes=9000, client_id="gold-1") == 0
    assert world.request(nbytes=3000, client_id="gold-2") == 2000
    assert world.request(nbytes=9000, client_id="gold-1", user=NOBODY) == 0
    assert world.request(nbytes=90_000, client_id="iron-1") == 0


def test_a_callback_is_told_of_quotas_and_says_when_limits_change() -> None:
    callback = Tenants()
    world = World(callback)
    world.set("consumer_byte_rate", 5, user="alice", client_id=None)
    world.set("consumer_byte_rate", None, user="alice", client_id=None)
    entity = {"user": "alice", "client-id": None}
    assert callback.events == [(ClientQuotaType.FETCH, entity, 5.0), (ClientQuotaType.FETCH, entity)]
    assert world.request(nbytes=12_000, client_id="gold-1") == 2000
    callback.limits["gold"] = 2000
    assert world.request(client_id="gold-1") == 2000
    callback.is_stale = True
    assert world.request(client_id="gold-1") == 0
    world.managers.follow_cluster(Cluster({"topic": {0: 1}}, 1))
    assert world.request(client_id="gold-1") == 2000


def test_a_callback_that_fails_throttles_nobody_and_is_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(Tenants())
    with caplog.at_level(logging.ERROR):
        assert [world.request(nbytes=90_000, client_id="broken") for _ in range(3)] == [0, 0, 0]
    assert sum("client.quota.callback.class failed" in record.message for record in caplog.records) == 2
