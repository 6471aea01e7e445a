"""`kafkapy tail` and `consume` show records that fulfil conditions, decoded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafkapy import Broker
from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.commands.decoding.schemas import Schemas
from kafkapy.commands.record_filter import RecordFilter
from kafkapy.errors import UserError
from kafkapy.registry.server import SchemaRegistry
from tests.commands.conftest import Run
from tests.network.raw_client import eventually

_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "who", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "raw", "type": "bytes"},
        ],
    }
)
_PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "money.proto";
message Other { message Order { int32 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; } }
"""
_MONEY = 'syntax = "proto3";\nmessage Money { int64 cents = 1; }\n'


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker.bootstrap_servers) as started:
        yield started


def record(value: Any, key: bytes | None = b"alice", headers: Any = ()) -> Any:
    """A record as kafka-python's consumer has it."""
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return SimpleNamespace(
        topic="orders", partition=1, offset=7, timestamp=0, key=key, value=data, headers=headers
    )


ORDER = {
    "total": 120,
    "paid": True,
    "gone": None,
    "who": {"name": "alice", "since": "2026-11"},
    "lines": ["AB"],
}


@pytest.mark.parametrize(
    ("condition", "takes"),
    [
        ("total=120", True),
        ("total!=120", False),
        ("total>100", True),
        ("total>=121", False),
        ("total<=120", True),
        ("total<abc", False),
        ("paid", True),
        ("gone", False),
        ("absent", False),
        ("absent!=1", True),
        ("absent>1", False),
        ("paid=true", True),
        ("paid=1", False),
        ("gone=null", True),
        ("who.name=alice", True),
        ("who.name~^al", True),
        ("who.name~^l", False),
        ("who.since>2026-10", True),
        ("lines[0]=AB", True),
        ("lines[1]=AB", False),
        ("$value.total = 120", True),
        ("$key=alice", True),
        ("$partition=1", True),
        ("$offset<7", False),
        ("$header.trace=17", True),
        ("$header.trace>9", True),
        ("$header.trace>1e1", True),
        ("$header.trace<2", False),
        ("who.since>9", False),
        ("lines=" + "[" * 100_000, False),
    ],
)
def test_a_condition_is_about_a_place_in_the_record(condition: str, takes: bool) -> None:
    choice = RecordFilter(None, [condition], Decoder(None))
    assert choice.takes(record(ORDER, headers=[("trace", b"17")])) is takes


def test_half_of_a_surrogate_pair_is_a_text() -> None:
    assert RecordFilter(None, ["a~^x.$"], Decoder(None)).takes(record(b'{"a": "x\\ud800"}'))
    assert not RecordFilter(None, ["a=x"], Decoder(None)).takes(record(b'{"a": "x\\ud800"}'))


def test_a_value_is_decoded_once_for_all_conditions() -> None:
    class Counting(Decoder):
        count = 0

        def value(self, data: bytes | None) -> Any:
            self.count += 1
            return super().value(data)

    decoder = Counting(None)
    assert RecordFilter(None, ["total>1", "paid", "$key=alice"], decoder).takes(record(ORDER))
    assert decoder.count == 2


def test_all_conditions_and_the_key_must_be_fulfilled() -> None:
    choice = RecordFilter("^al", ["total>100", "paid"], Decoder(None))
    assert choice.takes(record(ORDER))
    assert not choice.takes(record(ORDER, key=b"bob"))
    assert not choice.takes(record(ORDER, key=None))
    assert not choice.takes(record({**ORDER, "paid": False}))
    assert not choice.takes(record(b"no json"))
    assert not choice.takes(record(None))


@pytest.mark.parametrize(
    "condition", ["", "=1", "a..b", "a>", "a<= ", "$what=1", "a~(", "a[" + "9" * 5000 + "]"]
)
def test_a_condition_that_is_none_is_refused(condition: str) -> None:
    with pytest.raises(UserError, match=r"^condition "):
        RecordFilter(None, [condition], Decoder(None))


def test_consume_and_tail_show_the_chosen_records(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "chosen.a", "chosen.b")
    for number in range(6):
        broker.produce(f"chosen.{'ab'[number % 2]}", key=f"k{number}", value=json.dumps({"n": number}))
    shown = kafkapy("consume", "chosen.a", "-b", "--exit", "--where", "n>=2", "--print-key")
    assert shown.stdout.splitlines() == ['k2\t{"n": 2}', 'k4\t{"n": 4}']
    shown = kafkapy("tail", "chosen.*", "--max-messages", "2", "--key", "k[34]", "--format", "json")
    assert sorted(json.loads(line)["key"] for line in shown.stdout.splitlines()) == ["k3", "k4"]


def test_a_group_commits_what_was_not_chosen_too(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "passed")
    for number in range(4):
        broker.produce("passed", value=json.dumps({"n": number}))
    options = ("--from-beginning", "--group", "passing", "--max-messages", "1")
    assert kafkapy("consume", "passed", *options, "--where", "n=2").stdout == '{"n": 2}\n'
    assert kafkapy("consume", "passed", *options).stdout == '{"n": 3}\n'


def test_tail_follows_topics_that_are_made_later(kafkapy: Run, broker: Broker) -> None:
    kafkapy("topics", "create", "later.a")
    reads = broker.faults.fetch(topic="later.a").delay(0.001)

    def produce() -> None:
        eventually(lambda: reads.hits > 0, "it reads the first topic")
        broker.create_topics({"later.b": 2})
        broker.produce("later.b", value="two apples", partition=1)

    thread = threading.Thread(target=produce)
    thread.start()
    shown = kafkapy("tail", "later.*", "--max-messages", "1").stdout
    thread.join()
    assert shown.split("\t")[1:] == ["later.b-1", "0", "null", "two apples\n"]


def test_a_pattern_without_topics_is_refused(kafkapy: Run) -> None:
    assert "no topic matches nothing.*" in kafkapy("tail", "nothing.*").stderr


def test_values_are_decoded_by_avro(kafkapy: Run, broker: Broker, registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    serializer = AvroSerializer(client, _AVRO)
    kafkapy("topics", "create", "avro")
    context = SerializationContext("avro", MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in (1, 2):
        producer.produce("avro", serializer({"id": number, "who": None, "at": 1000, "raw": b"\xff"}, context))
    producer.produce("avro", b"\0\0\0\x03\xe8")
    producer.flush(10)
    options = ("--schema-registry", registry.url, "--exit", "-b")
    shown = kafkapy("consume", "avro", *options, "--where", "id=2")
    assert json.loads(shown.stdout) == {
        "id": 2,
        "who": None,
        "at": "1970-01-01 00:00:01+00:00",
        "raw": {"base64": "/w=="},
    }
    *_, last = kafkapy("consume", "avro", *options, "--format", "json").stdout.splitlines()
    assert json.loads(last)["value"]["undecoded"] == "schema 1000: the registry says: Not Found"


def test_values_are_decoded_by_protobuf(registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("money", Schema(_MONEY, "PROTOBUF"))
    reference = SchemaReference("money.proto", "money", 1)
    number = client.register_schema("proto-value", Schema(_PROTO, "PROTOBUF", [reference]))
    # Message 0 of the file, message 0 in it; id 7, price {cents 250}, at {seconds 1}
    data = b"\0" + number.to_bytes(4, "big") + bytes([4, 0, 0, 8, 7, 18, 3, 8, 250, 1, 26, 2, 8, 1])
    assert Decoder(Schemas(registry.url)).value(data) == {
        "id": 7,
        "price": {"cents": "250"},
        "at": "1970-01-01T00:00:01Z",
    }
    assert "undecoded" in Decoder(Schemas(registry.url)).value(data[:5] + b"\x02\x63")
    assert "undecoded" in Decoder(Schemas(registry.url)).value(data[:5] + b"\xff")


def test_a_password_of_a_registry_is_no_argument(kafkapy: Run) -> None:
    refused = kafkapy("consume", "x", "--schema-registry", "http://me:secret@localhost:1")
    assert "others can read arguments" in refused.stderr
    assert "secret" not in refused.stderr
    assert "expected http://HOST:PORT" in kafkapy("consume", "x", "--schema-registry", "localhost:1").stderr


def test_a_schema_that_does_not_exist_is_named(registry: SchemaRegistry) -> None:
    found = Decoder(Schemas(registry.url)).value(b"\0\0\0\x03\xe7x")
    assert found["undecoded"] == "schema 999: the registry says: Not Found"
