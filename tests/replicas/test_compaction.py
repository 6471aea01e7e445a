"""Compacted topics on a running broker, through a stock client."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kafkapy import Broker
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.files import Buffer, File, FileSystem
from kafkapy.storage.log.partition_log import PartitionLog

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "100"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def create(broker: Broker, topic: str, partitions: int = 1, **settings: str) -> None:
    config = {name.replace("_", "."): value for name, value in settings.items()} or COMPACTED
    client = admin(broker)
    client.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(10)


def set_config(broker: Broker, kind: ResourceType, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    client = admin(broker)
    client.incremental_alter_configs([resource])[resource].result(10)


def log_of(broker: Broker, topic: str) -> PartitionLog:
    log = broker.core.logs.get(TopicPartition(topic, 0))
    assert log is not None
    return log


def check_log(broker: Broker, topic: str) -> None:
    """Check a log on the broker's loop.

    No pass of the cleaner replaces its segments there meanwhile.
    """

    async def check(core: BrokerCore) -> None:
        log_of(broker, topic).check()

    broker.call(check)


def cleaned(broker: Broker, topic: str) -> int:
    return log_of(broker, topic).cleaned_offset or 0


class Keys:
    """Writes values of keys, and knows the last of each."""

    def __init__(self, broker: Broker, topic: str, **settings: object) -> None:
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "log_level": 0, **settings}
        )
        self._topic = topic
        self._chance = random.Random(7)
        self.last: dict[bytes, tuple[int, bytes | None]] = {}

    def write(self, count: int, size: int = 500) -> None:
        for _ in range(count):
            key = b"key-%d" % self._chance.randrange(100)
            value = None if self._chance.random() < 0.05 else self._chance.randbytes(size)
            self._producer.produce(self._topic, value, key, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(20) == 0

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        key, offset = message.key(), message.offset()
        if offset > self.last.get(key, (-1, None))[0]:
            self.last[key] = (offset, message.value())

    def check(self, broker: Broker) -> int:
        """A consumer finds the last value of each key, and not much more; how many records."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        records = read(broker, self._topic)
        for message in records:
            found[message.key()] = (message.offset(), message.value())
        for key, last in self.last.items():
            assert found.get(key, (0, None)) == last or (last[1] is None and key not in found)
        assert found.keys() <= self.last.keys()
        return len(records)


def read(broker: Broker, topic: str) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "check", "enable.partition.eof": True}
    )
    consumer.assign([ClientPartition(topic, 0, 0)])
    records = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            break
        records.append(message)
    consumer.close()
    return records


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_consumers_find_the_last_value_of_each_key(tmp_path: Path, codec: str) -> None:
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        create(broker, "keys")
        keys = Keys(broker, "keys", **{"compression.type": codec, "enable.idempotence": True})
        for _ in range(2):
            before = cleaned(broker, "keys")
            keys.write(6000)
            wait_until(lambda before=before: cleaned(broker, "keys") > before)  # type: ignore[misc]
            keys.check(broker)
        check_log(broker, "keys")
        assert keys.check(broker) < 9000
        count = cleaned(broker, "keys")
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        assert cleaned(broker, "keys") >= count
        keys.check(broker)


def test_a_consumer_reads_on_while_what_it_reads_is_compacted(tmp_path: Path) -> None:
    with Broker(config={**SETTINGS, "log.cleaner.enable": "true"}, data_dir=tmp_path) as broker:
        create(broker, "keys")
        keys = Keys(broker, "keys")
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "slow",
                "fetch.message.max.bytes": 20_000,
                "queued.max.messages.kbytes": 1,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([ClientPartition("keys", 0, 0)])
        found: dict[bytes, tuple[int, bytes | None]] = {}
        position = -1
        ended = False
        for _ in range(6):
            keys.write(1500)
            for message in consumer.consume(300, 1.0):
                if not message.error():
                    assert message.offset() > position
                    position = message.offset()
                    found[message.key()] = (message.offset(), message.value())
        wait_until(lambda: cleaned(broker, "keys") > 0)
        while not ended:
            message = consumer.poll(10)
            assert message is not None
            ended = message.error() is not None
            if not ended:
                assert message.offset() > position
                position = message.offset()
                found[message.key()] = (message.offset(), message.value())
        consumer.close()
        assert {key: found[key] for key in keys.last} == keys.last


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "offsets.topic.segment.bytes": "1048576",
        "log.cleaner.min.cleanable.ratio": "0.1",
    }
    partitions = [ClientPartition("events", number) for number in range(300)]
    with Broker(config=settings, data_dir=tmp_path) as broker:
        create(broker, "events", 300, cleanup_policy="delete")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "many"})
        number = 0
        while cleaned(broker, "__consumer_offsets") == 0 if number else True:
            number += 1
            assert number < 400, "the topic of the offsets is not compacted"
            commits = [ClientPartition(each.topic, each.partition, number) for each in partitions]
            consumer.commit(offsets=commits, asynchronous=False)
        consumer.close()
        check_log(broker, "__consumer_offsets")
        assert log_of(broker, "__consumer_offsets").size < number * 300 * 60
    with Broker(config=settings, data_dir=tmp_path) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "many"})
        assert {each.offset for each in consumer.committed(partitions, timeout=20)} == {number}
        consumer.close()


def test_a_topic_that_is_compacted_no_more_keeps_what_it_has(tmp_path: Path) -> None:
    throttled = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": "200000"}
    with Broker(config=throttled, data_dir=tmp_path) as broker:
        create(broker, "keys")
        Keys(broker, "keys").write(5000)
        log = log_of(broker, "keys")
        wait_until(lambda: log.cleaning is not None)
        set_config(broker, ResourceType.TOPIC, "keys", "cleanup.policy", "delete")
        assert log.cleaning is None
        assert len(read(broker, "keys")) == 5000
        assert not [path for path in Path(log.path).iterdir() if path.suffix in (".cleaned", ".swap")]
        # A throttled pass continues at full speed as soon as the setting changes.
        set_config(broker, ResourceType.TOPIC, "keys", "cleanup.policy", "compact")
        set_config(broker, ResourceType.BROKER, "1", "log.cleaner.io.max.bytes.per.second", "1e9")
        wait_until(lambda: cleaned(broker, "keys") > 0)
        check_log(broker, "keys")


def test_a_deleted_topic_ends_its_compaction(tmp_path: Path) -> None:
    throttled = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": "200000"}
    with Broker(config=throttled, data_dir=tmp_path) as broker:
        create(broker, "keys")
        Keys(broker, "keys").write(5000)
        wait_until(lambda: log_of(broker, "keys").cleaning is not None)
        client = admin(broker)
        client.delete_topics(["keys"])["keys"].result(10)
        create(broker, "keys")
        Keys(broker, "keys").write(10)
        assert len(read(broker, "keys")) == 10


def test_a_broker_stops_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    throttled = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": "100000"}
    with Broker(config=throttled, data_dir=tmp_path) as broker:
        create(broker, "keys")
        keys = Keys(broker, "keys")
        keys.write(5000)
        wait_until(lambda: log_of(broker, "keys").cleaning is not None)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    assert not [path for path in (tmp_path / "keys-0").iterdir() if path.suffix in (".cleaned", ".swap")]
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        wait_until(lambda: cleaned(broker, "keys") > 0)
        keys.check(broker)


def test_a_damaged_log_is_left_alone_and_the_others_are_compacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(config={**SETTINGS, "log.cleaner.backoff.ms": "1000"}, data_dir=tmp_path) as broker:
        for topic in ("bad", "good"):
            create(broker, topic, cleanup_policy="delete", segment_bytes="1048576")
            Keys(broker, topic).write(4000)
        path = Path(log_of(broker, "bad").segments.first.path)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for topic in ("bad", "good"):
            set_config(broker, ResourceType.TOPIC, topic, "cleanup.policy", "compact")
        wait_until(lambda: cleaned(broker, "good") > 0)
        wait_until(lambda: "bad-0 is not compacted" in caplog.text or "is damaged" in caplog.text)
        assert cleaned(broker, "bad") == 0
        assert path.read_bytes() == data


def test_old_segments_of_a_topic_with_both_policies_go(tmp_path: Path) -> None:
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        create(broker, "both", cleanup_policy="compact,delete", segment_bytes="1048576", retention_bytes="1")
        Keys(broker, "both").write(5000)
        wait_until(lambda: log_of(broker, "both").log_start_offset > 0)


def test_without_the_cleaner_nothing_is_compacted_and_retention_goes_on(tmp_path: Path) -> None:
    settings = {**SETTINGS, "log.cleaner.enable": "false", "log.retention.check.interval.ms": "100"}
    with Broker(config=settings, data_dir=tmp_path) as broker:
        create(broker, "both", cleanup_policy="compact,delete", segment_bytes="1048576", retention_bytes="1")
        Keys(broker, "both").write(5000)
        wait_until(lambda: log_of(broker, "both").log_start_offset > 0)
        assert cleaned(broker, "both") == 0


def test_several_threads_compact_several_topics(tmp_path: Path) -> None:
    topics = ("first", "second", "third")
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        for count in ("2", "3"):  # double at most
            set_config(broker, ResourceType.BROKER, "1", "log.cleaner.threads", count)
        for topic in topics:
            create(broker, topic, cleanup_policy="delete", segment_bytes="1048576")
        written = [Keys(broker, topic) for topic in topics]
        for keys in written:
            keys.write(4000)
        for topic in topics:
            set_config(broker, ResourceType.TOPIC, topic, "cleanup.policy", "compact")
        wait_until(lambda: all(cleaned(broker, topic) > 0 for topic in topics))
        set_config(broker, ResourceType.BROKER, "1", "log.cleaner.threads", "1")
        for keys in written:
            keys.write(3000)
            keys.check(broker)
        wait_until(lambda: all(cleaned(broker, topic) > 4000 for topic in topics))
        for keys, topic in zip(written, topics, strict=True):
            keys.check(broker)
            check_log(broker, topic)


class FullAtTimes(FileSystem):
    """A disk without room for what compaction writes, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        if self.times and os.readlink(f"/proc/self/fd/{file.fd}").endswith(".cleaned"):
            self.times -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write_at(file, buffers, position)


def test_a_disk_that_is_full_puts_compaction_off(tmp_path: Path) -> None:
    with Broker(config=SETTINGS, data_dir=tmp_path) as broker:
        create(broker, "keys", cleanup_policy="delete", segment_bytes="1048576")
        keys = Keys(broker, "keys")
        keys.write(4000)
        full = FullAtTimes(2)

        async def use_it(core: BrokerCore) -> None:
            full.open_files = core.logs.files.open_files
            core.logs.files = full

        broker.call(use_it)
        set_config(broker, ResourceType.TOPIC, "keys", "cleanup.policy", "compact")
        wait_until(lambda: cleaned(broker, "keys") > 0)
        assert full.times == 0
        keys.check(broker)
