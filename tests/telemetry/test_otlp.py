"""The decoder of pushes, beside OpenTelemetry's own package."""

from __future__ import annotations

import random
import time

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

from kafkapy.protocol.errors import DecodeError
from kafkapy.telemetry.otlp import LONGEST, MOST_ATTRIBUTES, MOST_SAMPLES, OtlpSample, decode_push


def pairs(attributes: dict[str, object]) -> list[KeyValue]:
    made = []
    for key, value in attributes.items():
        if isinstance(value, bool):
            any_value = AnyValue(bool_value=value)
        elif isinstance(value, int):
            any_value = AnyValue(int_value=value)
        elif isinstance(value, float):
            any_value = AnyValue(double_value=value)
        else:
            any_value = AnyValue(string_value=str(value))
        made.append(KeyValue(key=key, value=any_value))
    return made


def data(*metrics: Metric, resource: dict[str, object] | None = None) -> bytes:
    made = MetricsData()
    of_resource = made.resource_metrics.add()
    of_resource.resource.attributes.extend(pairs(resource or {}))
    of_resource.scope_metrics.add().metrics.extend(metrics)
    return made.SerializeToString()


def gauge(name: str, value: float, **attributes: object) -> Metric:
    made = Metric(name=name, description="d", unit="1")
    point = NumberDataPoint(attributes=pairs(attributes), time_unix_nano=7, start_time_unix_nano=5)
    if isinstance(value, int):
        point.as_int = value
    else:
        point.as_double = value
    made.gauge.data_points.append(point)
    return made


def total(name: str, value: int, temporality: int, *, grows: bool = True) -> Metric:
    made = Metric(name=name)
    made.sum.aggregation_temporality = temporality  # type: ignore[assignment]
    made.sum.is_monotonic = grows
    made.sum.data_points.append(NumberDataPoint(as_int=value))
    return made


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    push = decode_push(
        data(
            gauge("a", 1.5, topic="t", number=-3, flag=True, share=0.5),
            gauge("b", -7),
            total("c", 1 << 40, 2),
            total("d", 4, 1),
            total("e", 4, 2, grows=False),
            resource={"client_rack": "r"},
        )
    )
    rack = ("client_rack", "r")
    assert push.samples == [
        OtlpSample(
            "a",
            (rack, ("topic", "t"), ("number", "-3"), ("flag", "true"), ("share", "0.5")),
            1.5,
            only_grows=False,
            is_delta=False,
        ),
        OtlpSample("b", (rack,), -7, only_grows=False, is_delta=False),
        OtlpSample("c", (rack,), 1 << 40, only_grows=True, is_delta=False),
        OtlpSample("d", (rack,), 4, only_grows=True, is_delta=True),
        OtlpSample("e", (rack,), 4, only_grows=False, is_delta=False),
    ]
    assert push.left_out == 0


def test_other_kinds_are_left_out() -> None:
    histogram = Metric(name="h")
    histogram.histogram.data_points.add().count = 3
    assert [each.name for each in decode_push(data(histogram, gauge("a", 1))).samples] == ["a"]


def test_what_is_too_much_is_cut_and_counted() -> None:
    long = "x" * 10_000
    many = {f"k{number}": number for number in range(100)}
    metrics = [gauge(long, 1, **{long: long}, **many), *(gauge("a", 1) for _ in range(MOST_SAMPLES + 5))]
    push = decode_push(data(*metrics, resource=dict(many)))
    assert (len(push.samples), push.left_out) == (MOST_SAMPLES, 6)
    first = push.samples[0]
    assert len(first.name) == LONGEST
    assert len(first.attributes) == 2 * MOST_ATTRIBUTES
    assert ("x" * LONGEST, "x" * LONGEST) in first.attributes


@pytest.mark.parametrize(
    "broken", [b"\x0a\x05ab", b"\x0b", b"\x08", b"\xff" * 11, b"\x0a\xff\xff\xff\xff\x0f"]
)
def test_what_is_broken_is_refused(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_push(broken)


def test_broken_bytes_fail_in_one_way_only() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    source = random.Random(seed)
    whole = data(gauge("a", 1.5, topic="t"), total("c", 3, 2), resource={"r": "s"})
    refused = 0
    for _ in range(3_000):
        changed = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            changed[source.randrange(len(changed))] = source.randrange(256)
        try:
            assert len(decode_push(bytes(changed)).samples) <= len(whole)
        except DecodeError:
            refused += 1
    assert 0 < refused < 3_000


@pytest.mark.parametrize("unit", [b"\x0a\x00", b"\x08\x00", b"\x0a\x02\x12\x00"])
def test_a_push_of_a_million_bytes_costs_little(unit: bytes) -> None:
    began = time.thread_time()
    push = decode_push(unit * (1_048_576 // len(unit)))
    assert time.thread_time() - began < 5
    assert push.samples == []
    assert push.left_out == 1
