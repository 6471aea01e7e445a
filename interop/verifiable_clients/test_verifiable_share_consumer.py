"""Members of one share group acknowledge once what a producer says was acknowledged.

They are Apache Kafka's VerifiableProducer and VerifiableShareConsumers.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from interop.conftest import ServerFactory
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until
from interop.verifiable_clients.program import ENDED_BY_SIGTERM, VerifiableClient, given, steady_producer

TOPIC: Final = "shared"
MESSAGES: Final = 1_000


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("restart")
def test_members_of_a_share_group_acknowledge_each_record_once_though_the_broker_is_killed_and_one_leaves(
    new_server: ServerFactory, tmp_path: Path
) -> None:
    with skipped_without_jars():
        kafka_jars()
        server = new_server(tmp_path / "server")
    with server, ExitStack() as stack:
        create_topics(server.bootstrap_servers, (TOPIC,), 2)
        common = {"bootstrap_server": server.bootstrap_servers, "topic": TOPIC}
        member = {**common, "group_id": "verifiers", "verbose": True, "offset_reset_strategy": "earliest"}
        greeter = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        greetings: set[tuple[int | None, int | None, str]] = set()

        def note(_error: KafkaError | None, message: Message) -> None:
            greetings.add((message.partition(), message.offset(), "a greeting"))

        def both_are_at_work() -> bool:
            for partition in range(2):
                greeter.produce(TOPIC, "a greeting", partition=partition, on_delivery=note)
            assert greeter.flush(60) == 0
            return bool(settled(first) and settled(second))

        with (
            VerifiableClient(
                tmp_path, "VerifiableShareConsumer", **member, acknowledgement_mode="sync"
            ) as first,
            VerifiableClient(
                tmp_path, "VerifiableShareConsumer", **member, acknowledgement_mode="async"
            ) as second,
        ):
            wait_until(both_are_at_work, timeout=120, pause=0.5)
            producer = stack.enter_context(
                steady_producer(tmp_path, **common, max_messages=MESSAGES, throughput=100)
            )
            wait_until(lambda: producer.events("producer_send_success"), timeout=60)
            server.kill()
            server.start()
            before = len(is_settled(first, second))
            wait_until(lambda: len(is_settled(first, second)) > before, timeout=60)
            assert first.stop() == ENDED_BY_SIGTERM, first.output()
            # What was given to it at last may be acknowledged as it leaves, of which it tells nothing.
            unsure = {place[:2] for place in given(first)} - is_settled(first)
            assert producer.wait() == 0, producer.output()
            written = greetings | {
                (each["partition"], each["offset"], each["value"])
                for each in producer.events("producer_send_success")
            }
            places = {place[:2] for place in written}
            assert len(places) == MESSAGES + len(greetings)
            wait_until(lambda: is_settled(first, second) | unsure == places, timeout=60)
            assert second.stop() == ENDED_BY_SIGTERM, second.output()
            assert given(first) | given(second) == written
            counts = Counter([*settled(first), *settled(second)])
            assert all(count == 1 for count in counts.values()), "what was stored is not delivered again"
        server.stop()


def is_settled(*consumers: VerifiableClient) -> set[tuple[int, int]]:
    """What they have acknowledged, whether they know that it is stored or not."""
    return {
        place
        for each in consumers
        for success in (True, False)
        for place in acknowledged(each, success=success)
    }


def settled(consumer: VerifiableClient) -> list[tuple[int, int]]:
    """What it knows to be acknowledged, by partition and offset."""
    return acknowledged(consumer, success=True)


def acknowledged(consumer: VerifiableClient, *, success: bool) -> list[tuple[int, int]]:
    return [
        (partition["partition"], offset)
        for event in consumer.events("offsets_acknowledged")
        if event["success"] is success
        for partition in event["partitions"]
        for offset in partition["offsets"]
    ]
