"""librdkafka as it talks to brokers that cannot tell their versions."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.confluent_kafka.client import poll, produce
from interop.conftest import MakeTopic
from interop.support.records import text_records

FALLBACKS = ("0.8.2.1", "0.9.0", "0.10.0")


@pytest.mark.capability("groups")
@pytest.mark.parametrize("fallback", FALLBACKS)
def test_a_group_goes_on_where_it_has_committed(
    bootstrap_servers: str, make_topic: MakeTopic, name: str, fallback: str
) -> None:
    topic, sent = make_topic(), text_records(100)
    produce(bootstrap_servers, topic, sent, partition=0)

    def join() -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": name,
                "api.version.request": False,
                "broker.version.fallback": fallback,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        if fallback.startswith("0.8"):  # groups came with 0.9
            stored = consumer.committed([TopicPartition(topic, 0)], 30)
            consumer.assign([each if each.offset >= 0 else TopicPartition(topic, 0, 0) for each in stored])
        else:
            consumer.subscribe([topic])
        return consumer

    first = join()
    assert [got.offset for got in poll(first, 40)] == list(range(40))
    first.commit(offsets=[TopicPartition(topic, 0, 40)], asynchronous=False)
    first.close()
    second = join()
    received = poll(second, 60)
    second.close()
    assert [got.offset for got in received] == list(range(40, 100))
    assert [got.record.value for got in received] == [record.value for record in sent[40:]]


@pytest.mark.capability("positions")
@pytest.mark.parametrize("fallback", FALLBACKS)
def test_beginning_and_end_are_found(bootstrap_servers: str, make_topic: MakeTopic, fallback: str) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, text_records(100), partition=0)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "api.version.request": False,
            "broker.version.fallback": fallback,
            "log_level": 0,
        }
    )
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 30) == (0, 100)
    consumer.close()
