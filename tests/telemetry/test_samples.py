"""The metrics of clients, as Prometheus reads them."""

from __future__ import annotations

from kafkapy.telemetry.otlp import OtlpSample
from kafkapy.telemetry.samples import LONGEST_LABELS, AllSamples, ClientSample, named

ONE, OTHER = bytes(15) + b"\x07", bytes(15) + b"\x08"


def sample(
    name: str, value: float = 1, *, grows: bool = False, delta: bool = False, **labels: str
) -> OtlpSample:
    return OtlpSample(name, tuple(labels.items()), value, grows, delta)


def push(
    held: AllSamples, client: bytes, *found: OtlpSample, expires_ms: int = 10, left_out: int = 0
) -> None:
    values, too_long = named(found)
    held.update(client, {"client_id": "c"}, values, left_out + too_long, expires_ms)


def shown(held: AllSamples) -> list[dict[str, float]]:
    return [{key.name: value for key, value in each.values.items()} for each in held]


def test_names_are_those_of_kafka_with_a_prefix_of_clients() -> None:
    found, _ = named(
        [
            sample("org.apache.kafka.producer.record.queue.time.max"),
            sample("org.apache.kafka.consumer.fetch.total", grows=True),
            sample("org.apache.kafka.consumer.fetch", grows=True),
            sample("kafka_server-Broker\n{x}"),
        ]
    )
    assert [each.name for each, _, _ in found] == [
        "kafka_client_producer_record_queue_time_max",
        "kafka_client_consumer_fetch_total",
        "kafka_client_consumer_fetch_total",
        "kafka_client_kafka_server_broker_x",
    ]


def test_no_label_takes_the_place_of_those_that_tell_the_client() -> None:
    labels = (("client_id", "x"), ("Client.Instance-Id", "y"), ("9", "z"), ("-", "w"))
    found, _ = named([OtlpSample("a", labels, 1, only_grows=False, is_delta=False)])
    assert found[0][0].labels == (("_9", "z"),)


def test_labels_that_are_too_long_are_left_out() -> None:
    held = AllSamples()
    push(held, ONE, sample("a"), sample("b", label="x" * LONGEST_LABELS))
    assert (shown(held), held.left_out) == ([{"kafka_client_a": 1}], 1)


def test_a_push_takes_the_place_of_the_one_before_and_differences_add_up() -> None:
    held = AllSamples()
    push(held, ONE, sample("g", 5), sample("d", 5, grows=True, delta=True), sample("old"))
    push(held, ONE, sample("g", 3), sample("d", 2, grows=True, delta=True))
    assert shown(held) == [{"kafka_client_g": 3, "kafka_client_d_total": 7}]


def test_all_clients_together_have_a_bound_and_the_first_ones_keep_their_place() -> None:
    held = AllSamples(most=5)
    push(held, ONE, sample("a"), sample("b"))
    push(held, OTHER, sample("a"), sample("b"), sample("c"))
    assert (list(map(len, shown(held))), held.left_out) == ([2, 1], 2)
    push(held, ONE, sample("a"), sample("c"))
    assert list(map(len, shown(held))) == [2, 1]
    for number in range(100, 200):
        push(held, number.to_bytes(16), sample("a"))
    assert list(map(len, shown(held))) == [2, 1]


def test_clients_without_a_value_that_was_asked_for_are_bounded_too() -> None:
    held = AllSamples(most=5)
    for number in range(100):
        push(held, number.to_bytes(16))
    assert len(shown(held)) == 5


def test_a_client_that_is_silent_is_forgotten_and_leaves_room() -> None:
    held = AllSamples(most=3)
    push(held, ONE, sample("a"), sample("b"), expires_ms=10)
    held.expire(9)
    assert shown(held)
    held.expire(10)
    assert shown(held) == []
    push(held, OTHER, sample("a"), sample("b"))
    assert shown(held) == [{"kafka_client_a": 1, "kafka_client_b": 1}]


def test_a_series_is_the_name_with_its_labels() -> None:
    found, _ = named([sample("a", topic="t")])
    assert found == [(ClientSample("kafka_client_a", (("topic", "t"),), only_grows=False), 1, False)]
