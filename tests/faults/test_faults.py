"""A broker that does wrong on purpose, as stock clients see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.faults.fault import Fault
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.observe.waiting import NotSeenError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from tests.network.raw_client import RawClient

PATIENT = {"socket.timeout.ms": 2000, "request.timeout.ms": 2000, "log_level": 0}
"""Settings with which librdkafka gives up an answer after two seconds, and tells nothing of it."""


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker() as broker:
        broker.create_topics({"orders": 2, "bills": 1})
        yield broker


def producer(broker: kafkapy.Broker, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **PATIENT, **settings})


def write(
    broker: kafkapy.Broker,
    topic: str = "orders",
    partition: int = 0,
    *,
    settings: dict[str, object] | None = None,
) -> None:
    writer = producer(broker, **settings or {})
    writer.produce(topic, "two apples", partition=partition)
    assert writer.flush(20) == 0


def count(broker: kafkapy.Broker, topic: str = "orders") -> int:
    return len(broker.records(topic))


# --- requests that arrive twice -----------------------------------------------------------------------------


def test_a_record_is_there_twice_if_its_request_arrives_twice(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce(topic="orders").twice(2, times=1)
    write(broker)  # whose connection has ended when the request arrives again
    assert (fault.hits, count(broker)) == (1, 1)
    assert len(broker.topic("orders").records(2)) == 2
    write(broker)
    assert count(broker) == 3


def test_a_record_of_an_idempotent_producer_is_there_once(broker: kafkapy.Broker) -> None:
    with broker.faults.produce(topic="orders").twice(0.01) as fault:
        write(broker, settings={"enable.idempotence": True})
        write(broker, settings={"enable.idempotence": True})
        assert fault.hits == 2
    fetched = broker.faults.fetch(topic="orders").twice(0.01)  # an answer that has slices of files
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "late",
            **PATIENT,
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe(["orders"])
    assert len(reader.consume(2, 20)) == 2
    reader.close()
    assert fetched.hits > 0
    assert count(broker) == 2


# --- errors -------------------------------------------------------------------------------------------------


def test_a_producer_tries_again_after_an_error(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=2)
    write(broker)
    assert (fault.hits, count(broker)) == (2, 1)


def test_an_error_is_what_the_client_is_told(broker: kafkapy.Broker) -> None:
    broker.faults.produce().error("TOPIC_AUTHORIZATION_FAILED")
    writer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        writer.send("orders", b"two apples").get(10)
    writer.close()
    assert count(broker) == 0


def test_acks_0_has_no_answer_so_an_error_ends_the_connection(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce().error("NOT_LEADER_OR_FOLLOWER", times=1)
    write(broker, settings={"acks": 0})
    fault.hit()
    assert count(broker) == 0


def test_other_topics_partitions_and_clients_are_served(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce(topic="orders", partition=1, client_id="till").error("INVALID_RECORD")
    for topic, partition, client in (("orders", 0, "till"), ("bills", 0, "till"), ("orders", 1, "office")):
        write(broker, topic, partition, settings={"client.id": client})
    assert (fault.hits, count(broker), count(broker, "bills")) == (0, 2, 1)
    writer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, client_id="till", linger_ms=200, enable_idempotence=False
    )
    (refused, served) = [writer.send("orders", b"two apples", partition=index) for index in (1, 0)]
    with pytest.raises(kafka.errors.InvalidRecordError):
        refused.get(10)
    assert served.get(10).offset == 1
    writer.close()
    assert fault.hits == 1


def test_a_consumer_reads_on_after_errors(broker: kafkapy.Broker) -> None:
    for partition in (0, 1):
        write(broker, partition=partition)
    fault = broker.faults.fetch(topic="orders", partition=1).error("NOT_LEADER_OR_FOLLOWER", times=2)
    metadata = broker.faults.metadata(topic="orders").error("LEADER_NOT_AVAILABLE", times=1)
    reader = kafka.KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    found = [next(reader).partition for _ in range(2)]
    reader.close()
    assert sorted(found) == [0, 1]
    assert (fault.hits, metadata.hits) == (2, 1)


def test_a_fault_that_is_over_leaves_requests_to_the_next_one(broker: kafkapy.Broker) -> None:
    write(broker)
    refused = broker.faults.fetch(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=1)
    faults = [refused, broker.faults.fetch().disconnect(times=1)]
    reader = kafka.KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    assert next(reader).value == b"two apples"
    reader.close()
    assert [fault.hits for fault in faults] == [1, 1]


def test_a_group_survives_that_its_coordinator_moves(broker: kafkapy.Broker) -> None:
    write(broker)
    faults = broker.faults
    moved = [
        faults.find_coordinator().error("COORDINATOR_NOT_AVAILABLE", times=1),
        faults.join_group().error("COORDINATOR_LOAD_IN_PROGRESS", times=1),
        faults.sync_group().error("NOT_COORDINATOR", times=1),
        faults.offset_commit(topic="orders").error("NOT_COORDINATOR", times=1),
    ]
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    reader.subscribe(["orders"])
    end = time.monotonic() + 20
    while (record := reader.poll(1)) is None or record.error():  # librdkafka tells errors, and asks again
        assert time.monotonic() < end
    assert record.value() == b"two apples"
    while True:
        try:
            reader.commit(asynchronous=False)
            break
        except KafkaException:
            assert time.monotonic() < end
    broker.group("billing").committed("orders", 0, 1)
    reader.close()
    assert [fault.hits for fault in moved] == [1] * 4


def test_committed_offsets_are_asked_for_again(broker: kafkapy.Broker) -> None:
    """By kafka-python: librdkafka takes this error for the last word."""
    write(broker)
    fault = broker.faults.offset_fetch().error("NOT_COORDINATOR", times=2)
    reader = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
    )
    assert next(reader).value == b"two apples"
    reader.close()
    assert fault.hits == 2


def test_an_admin_client_is_told_of_an_error(broker: kafkapy.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    with broker.faults.delete_topics(topic="bills").error("POLICY_VIOLATION"):
        deleted = admin.delete_topics(["orders", "bills"])
        deleted["orders"].result(10)
        with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
            deleted["bills"].result(10)
    admin.delete_topics(["bills"])["bills"].result(10)


# --- connections and answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["before", "after", "no_answer", "torn_answer"])
def test_an_idempotent_producer_writes_once(broker: kafkapy.Broker, kind: str) -> None:
    requests = broker.faults.produce(topic="orders")
    fault = {
        "before": lambda: requests.disconnect(times=1),
        "after": lambda: requests.disconnect(after_effect=True, times=1),
        "no_answer": lambda: requests.no_answer(times=1),
        "torn_answer": lambda: requests.torn_answer(times=1),
    }[kind]()
    write(broker, settings={"enable.idempotence": True})
    assert (fault.hits, count(broker)) == (1, 1)


def test_without_idempotence_a_lost_answer_doubles_records(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce(topic="orders").disconnect(after_effect=True, times=1)
    write(broker, settings={"enable.idempotence": False})
    assert (fault.hits, count(broker)) == (1, 2)


def test_an_answer_is_late(broker: kafkapy.Broker) -> None:
    began = time.monotonic()
    broker.faults.produce().delay(0.5, times=1)
    write(broker)
    assert time.monotonic() - began >= 0.5
    assert count(broker) == 1


def test_an_answer_comes_in_small_pieces(broker: kafkapy.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.list_topics(timeout=10)
    fault = broker.faults.metadata().slow_bytes(200, times=1)
    began = time.monotonic()
    assert "orders" in admin.list_topics(timeout=10).topics
    assert time.monotonic() - began >= 0.35  # 0.4 s, in steps of the loop's milliseconds
    assert fault.hits == 1


def test_a_broker_with_a_long_delay_stops_at_once(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce().delay(300)
    writer = producer(broker)
    writer.produce("orders", "two apples")
    fault.hit()
    began = time.monotonic()
    broker.kill()
    assert time.monotonic() - began < 10
    writer.purge()


def test_an_asynchronous_test_waits_without_blocking_its_client() -> None:
    async def lose_an_answer() -> tuple[int, bytes]:
        async with kafkapy.AsyncBroker() as broker:
            fault = broker.faults.produce(topic="orders").disconnect(after_effect=True, times=1)
            late = broker.faults.fetch(topic="orders").delay(0.1, times=1)
            async with AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True
            ) as writer:
                sending = await writer.send("orders", b"two apples")
                await fault.hit(within=20)
                await sending
            async with AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            ) as reader:
                record = await asyncio.wait_for(reader.getone(), 20)
            await late.hit()
            return len(await broker.records("orders")), record.value

    assert asyncio.run(lose_an_answer()) == (1, b"two apples")


def test_brokers_of_a_cluster_have_faults_of_their_own() -> None:
    with kafkapy.Cluster(brokers=3) as cluster:
        cluster[1].create_topics({"orders": 3})  # each broker leads one partition
        fault = cluster[2].faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=1)
        fetches = [cluster[node].faults.fetch(topic="orders").delay(0.01, times=1) for node in (1, 2, 3)]
        writer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for partition in range(3):
            writer.produce("orders", "two apples", partition=partition)
        assert writer.flush(30) == 0
        assert fault.hits == 1
        for each in fetches:  # those of followers
            each.hit(within=30)


def test_a_fault_of_a_cluster_is_met_by_any_of_its_brokers() -> None:
    with kafkapy.Cluster(brokers=3) as cluster:
        cluster.create_topics({"orders": 3})  # each broker leads one partition
        own = cluster[2].faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=1)
        fault = cluster.faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=5)
        writer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for partition in range(3):
            writer.produce("orders", "two apples", partition=partition)
        assert writer.flush(30) == 0
        fault.hit(3)
        assert own.hits == 1
        assert [len(cluster.faults), len(cluster[1].faults), len(cluster[2].faults)] == [1, 0, 1]
        fault.stop()
        hits = fault.hits
        writer.produce("orders", "bread", partition=0)
        assert writer.flush(30) == 0
        assert fault.hits == hits


def test_a_fault_of_a_cluster_is_met_by_brokers_that_start_or_go_on_later() -> None:
    cluster = kafkapy.Cluster(brokers=2)
    fault = cluster.faults.list_groups().error("COORDINATOR_NOT_AVAILABLE")
    with cluster:
        assert {listing(cluster[number]) for number in (1, 2)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert fault.hits == 2
        cluster.kill(2)
        cluster.pause(1)
        fault.stop()
        cluster.faults.list_groups().error("NOT_COORDINATOR")
        cluster.resume(1)
        cluster.start(2)
        assert {listing(cluster[number]) for number in (1, 2)} == {ErrorCode.NOT_COORDINATOR}
        cluster.faults.stop()
        assert {listing(cluster[number]) for number in (1, 2)} == {ErrorCode.NONE}


def listing(broker: kafkapy.Broker) -> ErrorCode:
    """The error of an answer to ListGroups."""
    with RawClient(broker.bootstrap_servers) as client:
        return ErrorCode(client.ask(ListGroupsRequest(), 4).error_code)


# --- how often ----------------------------------------------------------------------------------------------


def hits_of(broker: kafkapy.Broker, fault: Fault, requests: int) -> int:
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    for _ in range(requests):
        admin.describe_cluster()
    admin.close()
    return fault.hits


def test_every_third_is_met(broker: kafkapy.Broker) -> None:
    assert hits_of(broker, broker.faults.describe_cluster().delay(0.001, every=3), 10) == 3


def test_a_seed_repeats_chance(broker: kafkapy.Broker) -> None:
    first = hits_of(broker, broker.faults.describe_cluster().delay(0.001, probability=0.5, seed=7), 20)
    broker.faults.stop()
    again = hits_of(broker, broker.faults.describe_cluster().delay(0.001, probability=0.5, seed=7), 20)
    assert 0 < first == again < 20


def test_a_fault_that_is_switched_off_costs_nothing(broker: kafkapy.Broker) -> None:
    def dispatcher() -> type:
        async def look(core: BrokerCore) -> type:
            return type(core.server.shared.dispatcher)

        return broker.call(look)

    assert dispatcher() is Dispatcher
    with broker.faults.produce().error("INVALID_RECORD") as fault:
        assert dispatcher() is not Dispatcher
    assert dispatcher() is Dispatcher
    write(broker)
    assert fault.hits == 0


def test_a_fault_outlives_an_outage(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce().error("NOT_LEADER_OR_FOLLOWER", times=1)
    broker.stop()
    broker.start()
    write(broker)
    assert fault.hits == 1


# --- what is shown ------------------------------------------------------------------------------------------


def test_faults_show_what_they_do(broker: kafkapy.Broker) -> None:
    assert repr(broker.faults) == "<faults: none>"
    broker.faults.produce(topic="orders").error("INVALID_RECORD", times=2)
    broker.faults.heartbeat(client_id="till").disconnect()
    assert repr(broker.faults) == (
        "<faults: <fault produce(topic='orders').error('INVALID_RECORD', times=2), hits=0>, "
        "<fault heartbeat(client_id='till').disconnect(), hits=0>>"
    )
    assert len(broker.faults) == 2


def test_a_wait_tells_what_was_met(broker: kafkapy.Broker) -> None:
    fault = broker.faults.produce().delay(0.001, every=2)
    write(broker)
    told = r"waited for 0.1 s for produce\(\).delay\(0.001, every=2\) to meet 1 requests; it has met 0, of 1"
    with pytest.raises(NotSeenError, match=told):
        fault.hit(within=0.1)


def test_a_wrong_name_is_told_with_near_ones(broker: kafkapy.Broker) -> None:
    with pytest.raises(AttributeError, match=r"no API of the broker is called prodce \(did you mean produce"):
        _ = broker.faults.prodce
    with pytest.raises(ValueError, match=r"no error of Kafka is called NOT_LEADER \(did you mean NOT_"):
        broker.faults.produce().error("NOT_LEADER")
    with pytest.raises(ValueError, match="heartbeat requests name no topics"):
        broker.faults.heartbeat(topic="orders").delay(1)
    with pytest.raises(ValueError, match="create_topics answers have no error for a partition"):
        broker.faults.create_topics(partition=1).error("INVALID_PARTITIONS")
    for address in ("localhost", "127.0.0.1:9092"):
        with pytest.raises(ValueError, match=f"address={address}: expected the IP address of a client"):
            broker.faults.connections(address=address)
    assert "::1" in str(broker.faults.produce(address="::1").delay(1))
    broker.faults.stop()
    with pytest.raises(ValueError, match="every=0 is not positive"):
        broker.faults.produce().delay(1, every=0)
    with pytest.raises(ValueError, match="probability=2 is not between 0 and 1"):
        broker.faults.produce().delay(1, probability=2)
    assert len(broker.faults) == 0
