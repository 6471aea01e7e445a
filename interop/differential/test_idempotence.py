"""Idempotent producers: sequence numbers, epochs, producer ids."""

from __future__ import annotations

import pytest

from interop.differential.batches import batch, idempotent
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import fetch, new_producer_id, produce
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest

DUPLICATE_TIME = Differs(
    "*again", "*log_append_time_ms", "the topic has CreateTime; Apache Kafka answers the batch's timestamp"
)

pytestmark = pytest.mark.jvm

LAST = 2**31 - 1


def test_duplicates_and_gaps(pair: Pair) -> None:
    def sequences(broker: Broker) -> None:
        topic, producer = broker.topic(), new_producer_id(broker)
        for sequence in range(7):
            produce(broker, f"sequence {sequence}", topic, idempotent(producer, 0, sequence))
        for sequence in range(7):
            produce(broker, f"sequence {sequence} again", topic, idempotent(producer, 0, sequence))
        produce(broker, "a gap", topic, idempotent(producer, 0, 8))
        produce(broker, "several", topic, idempotent(producer, 0, 7, count=3))
        produce(broker, "a part of several", topic, idempotent(producer, 0, 7, count=2))
        produce(broker, "more than several", topic, idempotent(producer, 0, 7, count=4))
        produce(broker, "several again", topic, idempotent(producer, 0, 7, count=3))
        produce(broker, "with another producer id between", topic, batch(1))
        produce(broker, "after it", topic, idempotent(producer, 0, 10))
        fetch(broker, "stored", topic, 0)

    pair.compare(sequences, DUPLICATE_TIME)


def test_epochs(pair: Pair) -> None:
    def epochs(broker: Broker) -> None:
        topic, producer = broker.topic(), new_producer_id(broker)
        produce(broker, "first", topic, idempotent(producer, 1, 0))
        produce(broker, "old epoch", topic, idempotent(producer, 0, 0))
        produce(broker, "old epoch, next sequence", topic, idempotent(producer, 0, 1))
        produce(broker, "new epoch, sequence continues", topic, idempotent(producer, 2, 1))
        produce(broker, "new epoch from 0", topic, idempotent(producer, 2, 0))
        produce(broker, "new epoch again", topic, idempotent(producer, 2, 0))
        produce(broker, "the old one again", topic, idempotent(producer, 1, 0))
        produce(broker, "epochs left out", topic, idempotent(producer, 9, 0))
        produce(broker, "largest epoch", topic, idempotent(producer, 32767, 0))
        fetch(broker, "stored", topic, 0)

    pair.compare(epochs, DUPLICATE_TIME)


def test_unknown_producers(pair: Pair) -> None:
    def unknown(broker: Broker) -> None:
        topic, producer = broker.topic(), new_producer_id(broker)
        produce(broker, "begins in the middle", topic, idempotent(producer, 0, 42))
        produce(broker, "continues", topic, idempotent(producer, 0, 43))
        produce(broker, "begins again", topic, idempotent(producer, 0, 0))
        produce(broker, "an id never given", topic, idempotent(10**12, 0, 0))
        produce(broker, "an epoch never given", topic, idempotent(10**12 + 1, 7, 5))
        for version in (3, 7, 13):
            produce(broker, f"a gap in v{version}", topic, idempotent(producer, 0, 99), version=version)

    pair.compare(unknown)


def test_sequences_wrap(pair: Pair) -> None:
    def wrap(broker: Broker) -> None:
        topic, producer = broker.topic(), new_producer_id(broker)
        produce(broker, "the last but one", topic, idempotent(producer, 0, LAST - 1))
        produce(broker, "the last", topic, idempotent(producer, 0, LAST))
        produce(broker, "again", topic, idempotent(producer, 0, LAST))
        produce(broker, "from 0", topic, idempotent(producer, 0, 0))
        produce(broker, "from 0 again", topic, idempotent(producer, 0, 0))
        other = broker.topic()
        produce(broker, "near the end", other, idempotent(producer, 0, LAST - 1))
        produce(broker, "across the end", other, idempotent(producer, 0, LAST, count=3))
        produce(broker, "across the end again", other, idempotent(producer, 0, LAST, count=3))
        produce(broker, "after the end", other, idempotent(producer, 0, 2))
        fetch(broker, "stored", other, 0)

    pair.compare(wrap, DUPLICATE_TIME)


def test_init_producer_id(pair: Pair) -> None:
    def init(broker: Broker) -> None:
        new_producer_id(broker)
        for version in broker.versions(InitProducerIdRequest):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            broker.ask(f"v{version}", request, version)
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
            broker.ask(f"v{version} no timeout", request, version)
            request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
            broker.ask(f"v{version} empty transactional id", request, version)
            if version >= 3:
                for producer_id, epoch in ((1, 0), (10**9, 5), (-1, 3), (5, -1)):
                    request = InitProducerIdRequest(
                        transactional_id=None,
                        transaction_timeout_ms=60_000,
                        producer_id=producer_id,
                        producer_epoch=epoch,
                    )
                    broker.ask(f"v{version} again {producer_id} {epoch}", request, version)

    pair.compare(init)
