"""Java's clients carry records unchanged.

They are kafka-console-producer, kafka-console-consumer and the performance tools.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from interop.confluent_kafka import client as confluent
from interop.conftest import MakeTopic
from interop.java_tools.tools import consume, produce, tool
from interop.support.records import CODECS, Received, Record, text_records


def content(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp=0) for record in records]


def sent_records() -> list[Record]:
    return [
        *text_records(300),
        Record(None, b"no key"),
        Record(b"tombstone", None),
        Record("ключ".encode(), "значение ☃".encode(), (("заголовок", "☃".encode()),)),
        Record(b"long", b"x" * 100_000),
    ]


def check(sent: list[Record], received: list[Received], before: int) -> None:
    assert [each.offset for each in received] == list(range(len(sent)))
    assert content([each.record for each in received]) == content(sent)
    assert all(before <= each.record.timestamp <= int(time.time() * 1000) for each in received)


@pytest.mark.capability("records")
@pytest.mark.capability("codecs")
@pytest.mark.capability("idempotence")
def test_what_the_console_producer_sends_the_console_consumer_prints(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    """Java's producer is idempotent unless told otherwise."""
    sent, before = sent_records(), int(time.time() * 1000)

    def there_and_back(codec: str) -> None:
        topic = topics[codec]
        produce(bootstrap_servers, topic, sent, f"compression.type={codec}", "linger.ms=50")
        check(sent, consume(bootstrap_servers, topic, len(sent)), before)

    topics = {codec: make_topic() for codec in CODECS}
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(there_and_back, CODECS))


@pytest.mark.capability("acks")
def test_records_arrive_with_every_kind_of_acknowledgement(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    sent, before = sent_records(), int(time.time() * 1000)

    def there_and_back(acks: str) -> None:
        topic = topics[acks]
        produce(bootstrap_servers, topic, sent, f"acks={acks}", "enable.idempotence=false")
        check(sent, consume(bootstrap_servers, topic, len(sent)), before)

    topics = {acks: make_topic() for acks in ("0", "1", "all")}
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(there_and_back, topics))


@pytest.mark.capability("records")
def test_what_other_clients_send_is_printed_with_its_time(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(500)
    confluent.produce(bootstrap_servers, topic, sent, compression_type="zstd")
    received = consume(bootstrap_servers, topic, len(sent))
    assert [each.record for each in received] == sent


@pytest.mark.capability("records")
def test_other_clients_read_what_java_sends(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent, before = make_topic(), sent_records(), int(time.time() * 1000)
    produce(bootstrap_servers, topic, sent, "compression.type=lz4")
    check(sent, confluent.consume(bootstrap_servers, topic, len(sent)), before)


@pytest.mark.capability("positions")
def test_the_console_consumer_starts_where_it_is_told(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(2), text_records(50)
    confluent.produce(bootstrap_servers, topic, sent, partition=1)
    place = ["--topic", topic, "--partition", "1", "--max-messages", "3", "--timeout-ms", "20000"]

    def values(*arguments: str) -> list[bytes]:
        return tool("console-consumer", bootstrap_servers, *place, *arguments).encode().splitlines()

    with ThreadPoolExecutor(2) as pool:
        at_forty, earliest = pool.map(lambda where: values("--offset", where), ["40", "earliest"])
    assert at_forty == [record.value for record in sent[40:43]]
    assert earliest == [record.value for record in sent[:3]]


@pytest.mark.capability("throughput tools")
@pytest.mark.capability("partitions")
def test_the_performance_tools_send_and_read_all_records(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, count = make_topic(3), 100_000
    printed = tool(
        "producer-perf-test",
        bootstrap_servers,
        *("--topic", topic, "--num-records", str(count), "--record-size", "200", "--throughput", "-1"),
    )
    assert f"{count} records sent" in printed.splitlines()[-1]
    arguments = ["--topic", topic, "--num-records", str(count), "--hide-header"]
    row = tool("consumer-perf-test", bootstrap_servers, *arguments).splitlines()[-1].split(",")
    assert int(row[4]) == count
    received = confluent.consume(bootstrap_servers, topic, count, partitions=3)
    assert len(received) == count
    assert {len(each.record.value or b"") for each in received} == {200}
    for partition in range(3):
        offsets = [each.offset for each in received if each.partition == partition]
        assert offsets == list(range(len(offsets)))
