"""A test waits for records, groups and transactions, and is told what was there instead."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.observe.offsets import offsets
from kafkapy.observe.record import Record
from kafkapy.observe.waiting import NotSeenError


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker() as broker:
        yield broker


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def consumer(broker: kafkapy.Broker, group: str = "billing", **settings: object) -> Consumer:
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    return Consumer({**given, **settings})


# --- records ------------------------------------------------------------------------------------------------


def test_writes_and_reads_without_a_client(broker: kafkapy.Broker) -> None:
    written = broker.produce("orders", key="17", value="two apples", headers={"source": "web"}, timestamp=5)
    assert written == Record("orders", 0, 0, 5, b"17", b"two apples", (("source", b"web"),))
    broker.produce("orders", value=None)
    assert broker.records("orders")[0] == written
    assert values(broker.records("orders")) == [b"two apples", None]
    reader = consumer(broker)
    reader.assign([TopicPartition("orders", 0, 0)])
    (message, _) = reader.consume(2, timeout=10)
    assert (message.key(), message.value(), message.headers()) == (b"17", b"two apples", [("source", b"web")])
    reader.close()


def test_a_key_goes_to_the_partition_that_javas_producers_choose(broker: kafkapy.Broker) -> None:
    broker.create_topics({"orders": 7})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    keys = ["", "1", "17", "kafka", "a longer key than the others", "\u00e9t\u00e9"]
    for key in keys:
        producer.produce("orders", key=key, value="from a client")
        broker.produce("orders", key=key, value="from here")
    assert producer.flush(10) == 0
    records = broker.topic("orders").records(2 * len(keys))
    for key in keys:
        assert len({each.partition for each in records if each.key == key.encode()}) == 1


def test_waits_for_records_that_come_later(broker: kafkapy.Broker) -> None:
    later = threading.Timer(0.1, lambda: broker.produce("orders", value="late"))
    later.start()
    assert values(broker.topic("orders").records(1)) == [b"late"]
    later.join()


def test_tells_what_is_there_instead(broker: kafkapy.Broker) -> None:
    with pytest.raises(
        NotSeenError, match=r"^waited for 0\.05 s for 1 records in orders; there is no such topic$"
    ):
        broker.topic("orders").records(1, within=0.05)
    broker.produce("orders", key="17", value="two apples", timestamp=0)
    with pytest.raises(NotSeenError) as failed:
        broker.topic("orders").records(2, within=0.05)
    assert str(failed.value).splitlines() == [
        "waited for 0.05 s for 2 records in orders; it has 1:",
        "partition  offset  time                     key  value       headers",
        "0          0       1970-01-01 00:00:00.000  17   two apples",
    ]


def test_more_records_than_wanted_fail_at_once(broker: kafkapy.Broker) -> None:
    for number in range(3):
        broker.produce("orders", value=str(number))
    with pytest.raises(NotSeenError, match=r"^waited for 2 records in orders; it has 3:"):
        broker.topic("orders").records(2, within=60)
    assert values(broker.topic("orders").records(at_least=2)) == [b"0", b"1", b"2"]


def test_records_of_open_and_aborted_transactions_do_not_count(broker: kafkapy.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing"})
    producer.init_transactions(10)
    for value, commits in (("aborted", False), ("committed", True)):
        producer.begin_transaction()
        producer.produce("orders", value=value)
        producer.flush(10)
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("orders", value="open")
    producer.flush(10)
    assert values(broker.topic("orders").records(1)) == [b"committed"]
    producer.abort_transaction()
    assert values(broker.records("orders")) == [b"committed"]


def test_deleted_records_are_not_there(broker: kafkapy.Broker) -> None:
    topic = broker.topic("orders")
    topic.empty()
    for number in range(3):
        broker.produce("orders", value=str(number))
    with pytest.raises(NotSeenError, match=r"for no records in orders; it has 3:\n"):
        topic.empty(within=0.05)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for offset, left in ((2, [b"2"]), (3, [])):
        for result in admin.delete_records([TopicPartition("orders", 0, offset)]).values():
            result.result(10)
        assert values(broker.records("orders")) == left
    topic.empty()


def test_a_refused_record_raises_the_reason(broker: kafkapy.Broker) -> None:
    with pytest.raises(ValueError, match=r"^orders-0: MESSAGE_TOO_LARGE: "):
        broker.produce("orders", value=bytes(2_000_000))
    with pytest.raises(ValueError, match=r"^topic with space: INVALID_TOPIC_EXCEPTION$"):
        broker.produce("with space", value="1")


def test_what_is_no_key_or_value_is_named(broker: kafkapy.Broker) -> None:
    given: dict[str, Any] = {"value": {"id": 17}}
    with pytest.raises(TypeError, match=r"^a key or value is bytes, str or None, not dict; encode it first$"):
        broker.produce("orders", **given)


def test_a_stopped_broker_is_named(broker: kafkapy.Broker) -> None:
    broker.stop()
    with pytest.raises(RuntimeError, match=r"the broker is not running"):
        broker.produce("orders", value="1")
    with pytest.raises(RuntimeError, match=r"the broker is not running"):
        broker.records("orders")


def test_a_broker_that_stops_ends_a_call(broker: kafkapy.Broker, caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    async def wait(core: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    for end in (broker.stop, broker.kill):
        begun.clear()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(broker.call, wait)
            assert begun.wait(60)
            end()
            with pytest.raises(RuntimeError, match=r"^the broker was stopped meanwhile$"):
                waiting.result(60)
        broker.start()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_a_broker_that_stops_ends_a_wait(broker: kafkapy.Broker) -> None:
    for end in (broker.stop, broker.kill):
        later = threading.Timer(0.1, end)
        later.start()
        with pytest.raises(RuntimeError, match=r"^the broker was stopped meanwhile$"):
            broker.topic("orders").records(1)
        later.join()
        broker.start()


def test_a_broker_that_stops_cancels_no_test_that_awaits() -> None:
    async def wait() -> None:
        async with kafkapy.AsyncBroker() as broker:
            waiting = asyncio.create_task(broker.topic("orders").records(1))
            await broker.produce("others", value="1")
            await broker.stop()
            with pytest.raises(RuntimeError, match=r"^the broker was stopped meanwhile$"):
                await waiting

    asyncio.run(wait())


def test_many_records_do_not_hold_the_loop(broker: kafkapy.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 100_000})
    for number in range(50_000):
        producer.produce("orders", value=str(number))
    assert producer.flush(30) == 0
    turns = 0

    async def count(_: BrokerCore) -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = broker.submit(count)
    assert len(broker.topic("orders").records(50_000)) == 50_000
    counting.cancel()
    assert turns > 30, "others ran meanwhile"


def test_a_topic_that_is_deleted_while_it_is_read_is_not_there(
    broker: kafkapy.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce("orders", value="old")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    async def offsets_then_deletion(
        core: BrokerCore, topics: Iterable[str], timestamp: int
    ) -> dict[tuple[str, int], int]:
        found = await offsets(core, topics, timestamp)
        if found:
            await asyncio.to_thread(admin.delete_topics(["orders"])["orders"].result, 10)
        return found

    monkeypatch.setattr("kafkapy.observe.topic.offsets", offsets_then_deletion)
    with pytest.raises(NotSeenError, match=r"there is no such topic$"):
        broker.topic("orders").records(1, within=0.1)


# --- groups -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_waits_for_the_members_of_a_group(broker: kafkapy.Broker, protocol: str) -> None:
    broker.create_topics({"orders": 4})
    group = broker.group("billing")
    with pytest.raises(NotSeenError, match=r"for a stable group billing; there is no such group$"):
        group.stable(within=0.05)
    settings = {"group.protocol": protocol, "client.id": "worker"}
    readers = [consumer(broker, **settings) for _ in range(2)]
    ended = threading.Event()

    def poll(reader: Consumer) -> None:
        while not ended.is_set():
            reader.poll(0.05)

    threads = [threading.Thread(target=poll, args=(reader,)) for reader in readers]
    for reader, thread in zip(readers, threads, strict=True):
        reader.subscribe(["orders"])
        thread.start()
    members = group.stable(members=2, within=30)
    assert [member.client_id for member in members] == ["worker", "worker"]
    with pytest.raises(
        NotSeenError, match=r"with 3 members; it is Stable, with 2 members: .*client id worker"
    ):
        group.stable(members=3, within=0.05)
    ended.set()
    for thread in threads:
        thread.join()
    for reader in readers:
        reader.close()


def test_a_group_need_not_commit_what_ends_transactions(broker: kafkapy.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "orders"})
    producer.init_transactions(10)
    group, reader = broker.group("billing"), consumer(broker)
    reader.subscribe(["orders"])
    producer.begin_transaction()
    producer.produce("orders", value="committed")
    producer.commit_transaction(10)
    (message,) = reader.consume(1, timeout=10)
    reader.commit(message=message, asynchronous=False)
    group.caught_up()
    producer.begin_transaction()
    producer.produce("orders", value="aborted")
    producer.flush(10)
    producer.abort_transaction(10)
    group.caught_up()
    assert group.lags() == {("orders", 0): 3}
    broker.produce("orders", value="new")
    with pytest.raises(NotSeenError, match=r"it is behind in orders-0 by 4$"):
        group.caught_up(within=0.05)
    reader.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_the_topics_that_its_members_are_assigned(
    broker: kafkapy.Broker, protocol: str
) -> None:
    broker.produce("orders", value="1")
    broker.produce("payments", value="2")
    settings = {"enable.auto.commit": "false", "group.protocol": protocol}
    group, reader = broker.group("billing"), consumer(broker, **settings)
    reader.subscribe(["orders", "payments"])
    assert len(reader.consume(2, timeout=20)) == 2
    expected = "it has committed nothing, and is behind in orders-0 by 1, payments-0 by 1"
    with pytest.raises(NotSeenError, match=f"{expected}$"):
        group.caught_up(within=0.05)
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    with pytest.raises(NotSeenError, match=r"it is behind in payments-0 by 1$"):
        group.caught_up(within=0.05)
    assert group.lags() == {("orders", 0): 0, ("payments", 0): 1}
    reader.commit(offsets=[TopicPartition("payments", 0, 1)], asynchronous=False)
    group.caught_up()
    reader.close()
    group.caught_up()


def test_waits_until_a_group_has_caught_up(broker: kafkapy.Broker) -> None:
    group = broker.group("billing")
    with pytest.raises(NotSeenError, match=r"for group billing to catch up; it has committed nothing$"):
        group.caught_up(within=0.05)
    broker.create_topics({"orders": 2})
    for number in range(5):
        broker.produce("orders", value=str(number), partition=number % 2)
    reader = consumer(broker, **{"enable.auto.commit": "false"})
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    assert group.committed("orders", 0, 2) == 2
    assert group.committed("orders", 0, 1) == 2
    assert group.lags() == {("orders", 0): 1, ("orders", 1): 2}
    with pytest.raises(NotSeenError, match=r"it is behind in orders-0 by 1, orders-1 by 2$"):
        group.caught_up(within=0.05)
    with pytest.raises(NotSeenError, match=r"offset 3 of orders-0; it has committed 2$"):
        group.committed("orders", 0, 3, within=0.05)
    with pytest.raises(NotSeenError, match=r"offset 1 of orders-1; it has committed orders-0: 2$"):
        group.committed("orders", 1, 1, within=0.05)
    ends = [TopicPartition("orders", 0, 3), TopicPartition("orders", 1, 2)]
    reader.commit(offsets=ends, asynchronous=False)
    group.caught_up()
    reader.close()


# --- transactions -------------------------------------------------------------------------------------------


def test_waits_for_the_end_of_a_transaction(broker: kafkapy.Broker) -> None:
    transaction = broker.transaction("billing")
    with pytest.raises(NotSeenError, match=r"there is no such transactional id$"):
        transaction.committed(within=0.05)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing"})
    producer.init_transactions(10)
    with pytest.raises(NotSeenError, match=r"it has had no transaction$"):
        transaction.committed(within=0.05)
    producer.begin_transaction()
    producer.produce("orders", value="1")
    producer.flush(10)
    expected = re.escape("to be committed; its transaction is open, with orders-0")
    with pytest.raises(NotSeenError, match=expected):
        transaction.committed(within=0.05)
    producer.commit_transaction(10)
    transaction.committed()
    with pytest.raises(NotSeenError, match=r"its last transaction was committed$"):
        transaction.aborted(within=0.05)
    producer.begin_transaction()
    producer.produce("orders", value="2")
    producer.flush(10)
    producer.abort_transaction(10)
    transaction.aborted()


# --- asyncio ------------------------------------------------------------------------------------------------


def test_the_same_with_await() -> None:
    async def body() -> None:
        async with kafkapy.AsyncBroker() as broker:
            await broker.topic("orders").empty()
            waiting = asyncio.create_task(broker.topic("orders").records(1))
            await broker.produce("orders", key="17", value="two apples")
            assert values(await waiting) == [b"two apples"]
            assert await broker.records("orders") == await waiting
            for call in (
                broker.group("billing").stable(within=0),
                broker.group("billing").caught_up(within=0),
                broker.group("billing").committed("orders", 0, 1, within=0),
                broker.transaction("billing").committed(within=0),
                broker.transaction("billing").aborted(within=0),
                broker.topic("orders").records(2, within=0),
            ):
                with pytest.raises(NotSeenError):
                    await call
            assert await broker.group("billing").lags() == {}

    asyncio.run(body())


def test_the_records_of_a_durable_broker_are_acknowledged() -> None:
    with kafkapy.Broker(config={"durability": "fsync"}) as broker:
        assert broker.produce("orders", value="1").offset == 0
        assert len(broker.records("orders")) == 1


# --- clusters -----------------------------------------------------------------------------------------------


def test_a_broker_of_a_cluster_tells_what_others_know() -> None:
    with kafkapy.Cluster(brokers=2) as cluster:
        cluster[1].create_topics({"orders": 2})
        for broker in (cluster[1], cluster[2]):
            with pytest.raises(NotSeenError, match=r"; this broker does not lead orders-\d; ask "):
                broker.topic("orders").records(within=0.05)
        with Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"}) as reader:
            reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        told = []
        for broker in (cluster[1], cluster[2]):
            with pytest.raises(NotSeenError) as failed:
                broker.group("billing").caught_up(within=0.05)
            told.append(str(failed.value).partition("; ")[2])
        assert any(re.match(r"this broker does not lead orders-\d", each) for each in told)
        assert "it has committed nothing here; another broker may coordinate it" in told


@pytest.fixture
def cluster() -> Iterator[kafkapy.Cluster]:
    with kafkapy.Cluster(brokers=3) as cluster:
        yield cluster


def test_a_cluster_reads_and_writes_all_partitions_whoever_leads_them(cluster: kafkapy.Cluster) -> None:
    cluster.create_topics({"orders": 6})
    for number in range(12):
        cluster.produce("orders", partition=number % 6, key=str(number), value=f"order {number}")
    records = cluster.topic("orders").records(12)
    assert [(each.partition, each.value) for each in records] == [
        (partition, b"order %d" % number) for partition in range(6) for number in (partition, partition + 6)
    ]
    leaders = {each.leader for each in cluster[1].core.metadata.image.topics["orders"].partitions}
    assert leaders == {1, 2, 3}
    assert cluster.records("orders") == records
    cluster.topic("nothing").empty(within=0)


def test_a_cluster_creates_a_topic_when_it_is_written_to(cluster: kafkapy.Cluster) -> None:
    written = cluster.produce("orders", key="17", value="two apples")
    assert cluster.topic("orders").records(1) == [written]


def test_a_cluster_waits_for_groups_whoever_coordinates_them(cluster: kafkapy.Cluster) -> None:
    cluster.create_topics({"orders": 6})
    for partition in range(6):
        cluster.produce("orders", partition=partition, value="two apples")
    for number in range(4):  # of several coordinators
        settings = {"group.id": f"billing-{number}", "auto.offset.reset": "earliest"}
        with Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings}) as reader:
            reader.subscribe(["orders"])
            found = 0
            while found < 6:
                found += len(reader.consume(6 - found, timeout=0.2))
            (member,) = cluster.group(f"billing-{number}").stable(members=1)
            assert member.client_id == "rdkafka"
            with pytest.raises(
                NotSeenError, match=r"; it has committed nothing, and is behind in orders-0 by 1, "
            ):
                cluster.group(f"billing-{number}").caught_up(within=0)
            reader.commit(asynchronous=False)
        cluster.group(f"billing-{number}").caught_up()
        assert cluster.group(f"billing-{number}").committed("orders", 0, 1) == 1
        assert sum(cluster.group(f"billing-{number}").lags().values()) == 0
    with pytest.raises(NotSeenError, match=r"; there is no such group$"):
        cluster.group("shipping").stable(within=0)


def test_a_cluster_waits_for_transactions_whoever_coordinates_them(cluster: kafkapy.Cluster) -> None:
    cluster.create_topics({"bills": 3})
    for number in range(4):
        transactional_id = f"billing-{number}"
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("bills", value=f"bill {number}", partition=number % 3)
        producer.flush(30)
        with pytest.raises(NotSeenError, match="its transaction is open"):
            cluster.transaction(transactional_id).committed(within=0)
        if number % 2:
            producer.abort_transaction(30)
            cluster.transaction(transactional_id).aborted()
        else:
            producer.commit_transaction(30)
            cluster.transaction(transactional_id).committed()
    assert {*values(cluster.topic("bills").records(2))} == {b"bill 0", b"bill 2"}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_waits_for_a_cluster_outlive_its_brokers(cluster: kafkapy.Cluster, end: str) -> None:
    cluster.create_topics({"orders": 6})
    for partition in range(6):
        cluster.produce("orders", partition=partition, value="before")
    for broker in (1, 2, 3):
        getattr(cluster, end)(broker)
        assert len(cluster.topic("orders").records(at_least=6, within=60)) >= 6
        for partition in range(6):
            cluster.produce("orders", partition=partition, value=f"without {broker}")
        cluster.start(broker)
    assert len(cluster.topic("orders").records(24, within=60)) == 24


def test_a_wait_for_a_cluster_goes_on_when_the_broker_that_waits_ends(cluster: kafkapy.Cluster) -> None:
    cluster.create_topics({"orders": 3})
    found: list[Record] = []
    waiting = threading.Thread(target=lambda: found.extend(cluster.topic("orders").records(3, within=60)))
    waiting.start()
    cluster.kill(next(iter(cluster)))
    for partition in range(3):
        cluster.produce("orders", partition=partition, value="two apples")
    waiting.join(90)
    assert values(found) == 3 * [b"two apples"]


def test_a_paused_broker_is_not_asked_and_what_it_leads_is_named(cluster: kafkapy.Cluster) -> None:
    cluster.create_topics({"orders": 6})
    cluster.produce("orders", value="two apples")
    cluster.pause(1)
    with pytest.raises(NotSeenError, match=r"; no broker that runs leads orders-\d"):
        cluster.topic("orders").records(within=0.05)
    cluster.resume(1)
    assert len(cluster.topic("orders").records(1)) == 1


def test_a_cluster_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="no broker of the cluster is running"):
        kafkapy.Cluster().topic("orders").records()


def test_a_record_that_too_few_replicas_would_get_is_not_written(
    cluster: kafkapy.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkapy.observe.waiting.PATIENCE", 0.05)
    cluster.create_topics({"orders": 1})
    cluster.stop(2)
    cluster.stop(3)
    with pytest.raises(
        NotSeenError, match=r"waited for 0.05 s for orders to take a record; 1 replicas of orders-0"
    ):
        cluster.produce("orders", value="two apples")
    cluster.start(2)
    monkeypatch.undo()
    cluster.produce("orders", value="two apples")
    assert len(cluster.records("orders")) == 1
