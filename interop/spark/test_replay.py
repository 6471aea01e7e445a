"""Rows go back into a topic as the records that they were, in their order, in every format."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import Message, Producer

from interop.conftest import MakeTopic
from kafkapy.cli import main
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.table_target import TABLE_FORMATS
from kafkapy.pipeline.topics import Topics
from tests.pipeline.protobuf_messages import descriptor_set, order_file

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.replay.replay import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def landed(
    spark: SparkSession,
    topic: str,
    bootstrap: str,
    folder: Path,
    records: list[tuple[int, Any, Any]],
    kind: str = "delta",
    **more: Any,
) -> PipelineDefinition:
    """A table of the records (partition, key, value); their timestamps are 1 s apart."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, (partition, key, value) in enumerate(records, 1):
        headers = [("number", b"%d" % number), ("nothing", None)]
        producer.produce(topic, value, key, partition=partition, timestamp=number * 1_000, headers=headers)
    assert producer.flush(30) == 0
    values = {"topic": topic, "bootstrap": bootstrap, "table": f"{kind}:{folder / kind}", **more}
    definition = PipelineDefinition.from_mapping(values)
    Pipeline.of(definition).run(once=True, spark=spark)
    return definition


def records_in(bootstrap: str, topic: str) -> list[Message]:
    return list(Topics(bootstrap).consume(topic))


def sources(messages: list[Message]) -> list[tuple[int, int]]:
    """(partition, offset) of each by its header."""
    texts = [dict(message.headers())["kafkapy.source"].decode() for message in messages]
    return [(int(text.split("-")[-2]), int(text.split("-")[-1])) for text in texts]


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_raw_rows_become_the_records_that_they_were(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=3)
    keys = [None, b"k1", b"", b"k\xff3"]
    records = [(n % 3, keys[n % 4], None if n % 7 == 3 else b"value %d" % n) for n in range(240)]
    definition = landed(spark, topic, bootstrap_servers, tmp_path, records, kind)
    result = replay(definition, f"{topic}.again", spark=spark)
    assert result.records == 240
    assert Topics(bootstrap_servers).setting(f"{topic}.again", "retention.ms") == "-1"
    again = records_in(bootstrap_servers, f"{topic}.again")
    originals = {(m.partition(), m.offset()): m for m in records_in(bootstrap_servers, topic)}
    assert sorted(sources(again)) == sorted(originals)
    for place, message in zip(sources(again), again, strict=True):
        original = originals[place]
        assert (message.key(), message.value()) == (original.key(), original.value())
        assert message.timestamp() == original.timestamp()
        assert message.headers()[:-1] == original.headers()
    for target in range(3):
        in_order = [place for place, m in zip(sources(again), again, strict=True) if m.partition() == target]
        for partition in range(3):
            offsets = [offset for p, offset in in_order if p == partition]
            assert offsets == sorted(offsets)


def test_a_condition_chooses_rows_and_a_rate_bounds_their_speed(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    records = [(n % 2, b"k", json.dumps({"n": n, "name": f"é{n}"})) for n in range(200)]
    definition = landed(spark, topic, bootstrap_servers, tmp_path, records, format="json")
    told: list[tuple[int, int]] = []
    begun = time.monotonic()
    result = replay(
        definition,
        f"{topic}.some",
        where="n >= 100 AND _partition = 1",
        rate=25,
        spark=spark,
        progress=lambda done, total: told.append((done, total)),
    )
    assert time.monotonic() - begun > 50 / 25 - 0.2
    assert result.records == 50
    assert {total for _, total in told} == {50}
    some = records_in(bootstrap_servers, f"{topic}.some")
    assert [json.loads(message.value()) for message in some] == [
        {"n": n, "name": f"é{n}"} for n in range(101, 200, 2)
    ]


def test_json_rows_without_any_value_become_null_values(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic()
    values = ['{"at": "2013-01-01T10:15:00.000250Z", "n": null}', None, '{"n": 0}']
    schema = {"kind": "json", "schema": "n INT, at TIMESTAMP"}
    definition = landed(
        spark, topic, bootstrap_servers, tmp_path, [(0, b"k", v) for v in values], format=schema
    )
    replay(definition, f"{topic}.again", spark=spark)
    again = [message.value() for message in records_in(bootstrap_servers, f"{topic}.again")]
    assert again == [b'{"at":"2013-01-01T10:15:00.000250Z"}', None, b'{"n":0}']


FIRST = {"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "int", "default": 1},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
}


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, value)
    return written.getvalue()


@pytest.mark.parametrize("framed", [False, True])
def test_avro_rows_become_values_of_the_newest_schema(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, framed: bool
) -> None:
    topic = make_topic()
    (tmp_path / "first.avsc").write_text(json.dumps(FIRST))
    (tmp_path / "second.avsc").write_text(json.dumps(SECOND))
    files = {7: str(tmp_path / "first.avsc"), 300: str(tmp_path / "second.avsc")}
    full = {"id": 2, "amount": 5, "at": 1_357_000_000_000, "tags": {"a": "b"}}
    frame = b"\0\0\0\x01\x2c" if framed else b""
    values = [frame + avro(SECOND, full), None]
    if framed:
        values.append(b"\0\0\0\0\x07" + avro(FIRST, {"id": 1}))
    form = {"kind": "avro", "schemas": files} if framed else {"kind": "avro", "schema": files[300]}
    definition = landed(
        spark, topic, bootstrap_servers, tmp_path, [(0, b"k", v) for v in values], format=form
    )
    replay(definition, f"{topic}.again", spark=spark)
    again = [message.value() for message in records_in(bootstrap_servers, f"{topic}.again")]
    assert again[:2] == values[:2]
    if framed:
        assert again[2][:5] == frame
        defaults: dict[str, Any] = {"id": 1, "amount": 1, "at": None, "tags": {}}
        assert fastavro.schemaless_reader(io.BytesIO(again[2][5:]), SECOND) == defaults


def record_of(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def states(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "State", "symbols": list(symbols)}


WIDER = record_of(
    "Sale",
    id="long",
    item=record_of("Item", x="int", y=["null", "string"]),
    items={"type": "array", "items": record_of("Part", n="long")},
    by={"type": "map", "values": "long"},
    state=states("NEW", "OLD"),
    price="double",
    gone=["null", "string"],
)
NARROWER = record_of(
    "Sale",
    id="int",
    item=record_of("Item", x="int"),
    items={"type": "array", "items": record_of("Part", n="int")},
    by={"type": "map", "values": "int"},
    state=states("NEW"),
    price="float",
)


def test_avro_rows_are_written_by_the_newest_schema_that_takes_them_whole(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic()
    plain = {"id": 1, "item": {"x": 1, "y": None}, "items": [{"n": 1}], "by": {"a": 1}, "state": "NEW"}
    plain |= {"price": 0.5, "gone": None}
    only_wider: list[dict[str, Any]] = [
        {"id": 2**40},
        {"item": {"x": 1, "y": "q"}},
        {"items": [{"n": 1}, {"n": -(2**31) - 1}]},
        {"by": {"a": 1, "b": 2**31}},
        {"state": "OLD"},
        {"price": 0.1},
        {"gone": "left"},
    ]
    wider = [b"\0\0\0\0\x07" + avro(WIDER, {**plain, **more}) for more in only_wider]
    narrower = b"\0\0\0\0\x09" + avro(NARROWER, plain)
    either = b"\0\0\0\0\x07" + avro(WIDER, plain)
    form = {"kind": "avro", "schemas": {7: json.dumps(WIDER), 9: json.dumps(NARROWER)}}
    values = [*wider, narrower, either, None]
    definition = landed(
        spark, topic, bootstrap_servers, tmp_path, [(0, b"k", v) for v in values], format=form
    )
    replay(definition, f"{topic}.again", spark=spark)
    again = [message.value() for message in records_in(bootstrap_servers, f"{topic}.again")]
    assert again == [*wider, narrower, narrower, None]


def test_an_avro_row_that_no_schema_can_hold_is_named_before_anything_is_written(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic()
    (tmp_path / "s.avsc").write_text(json.dumps(record_of("Sale", id="long", state=states("NEW", "OLD"))))
    form = {"kind": "avro", "schema": str(tmp_path / "s.avsc")}
    schema = json.loads((tmp_path / "s.avsc").read_text())
    values = [avro(schema, {"id": n, "state": ("NEW", "OLD")[n]}) for n in range(2)]
    definition = landed(
        spark, topic, bootstrap_servers, tmp_path, [(0, b"k", v) for v in values], format=form
    )
    (tmp_path / "s.avsc").write_text(json.dumps(record_of("Sale", state=states("NEW"))))
    with pytest.raises(PipelineError) as refused:
        replay(definition, f"{topic}.again", spark=spark)
    assert f"the row of {topic}-0-1 has a value in the column state that no Avro" in str(refused.value)
    assert not Topics(bootstrap_servers).exists(f"{topic}.again")
    replay(definition, f"{topic}.again", where="state = 'NEW'", spark=spark)
    (message,) = records_in(bootstrap_servers, f"{topic}.again")
    assert message.value() == b"\0", "the column id, which the schema does not have, is left out"


def test_protobuf_rows_become_the_same_bytes(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    from google.protobuf import json_format

    from kafkapy.pipeline.formats.protobuf_descriptors import message_class

    topic = make_topic()
    (tmp_path / "order.desc").write_bytes(descriptor_set(order_file()))
    order = {
        "aInt64": "-5",
        "aUint64": str(2**64 - 1),
        "aString": "größe",
        "items": [{"sku": "b", "amount": 2}],
        "at": "2013-01-01T10:15:00.123456Z",
        "counts": {"one": "1"},
        "extra": {"x": [1, None]},
        "note": "",
    }
    form = {"kind": "protobuf", "schema": str(tmp_path / "order.desc"), "message": "shop.Order"}
    message = json_format.ParseDict(order, message_class(descriptor_set(order_file()), "shop.Order")())
    values = [message.SerializeToString(deterministic=True), None]
    definition = landed(
        spark, topic, bootstrap_servers, tmp_path, [(0, b"k", v) for v in values], format=form
    )
    replay(definition, f"{topic}.again", spark=spark)
    again = [message.value() for message in records_in(bootstrap_servers, f"{topic}.again")]
    assert again == values


def test_what_cannot_be_replayed_is_one_line(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def command(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["pipeline", "replay", *arguments])
        assert ended.value.code == 1
        said: str = capfd.readouterr().err
        assert said.count("\n") == 1, said
        return said

    topic = make_topic()
    records = [(0, b"k", b"x" * (2_000 if n == 60 else 10)) for n in range(100)]
    definition = landed(spark, topic, bootstrap_servers, tmp_path, records)
    table = definition.table.location
    capfd.readouterr()
    assert "`nope` cannot be resolved" in command(table, "--to", f"{topic}.a", "--where", "nope = 1")
    assert "--where" in command(table, "--to", f"{topic}.a", "--where", "_offset = (")
    assert "use --force" in command(table, "--to", topic)
    assert "--to: " in command(table, "--to", "no/topic")
    assert not Topics(bootstrap_servers).exists(f"{topic}.a")
    small = make_topic(max_message_bytes="1000")
    said = command(table, "--to", small)
    assert f"stopped at {topic}-0-" in said
    assert f"{len(records_in(bootstrap_servers, small))} of 100 records were written" in said


def test_the_pipelines_own_topic_is_taken_when_forced(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = make_topic()
    definition = landed(spark, topic, bootstrap_servers, tmp_path, [(0, b"k", b"v")] * 10, "parquet")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "pipeline",
                "replay",
                definition.table.location,
                "--to",
                topic,
                "--force",
                "--where",
                "_offset < 3",
            ]
        )
    assert not ended.value.code
    assert "3 records written" in capsys.readouterr().out
    assert len(records_in(bootstrap_servers, topic)) == 13


def test_a_table_that_does_not_exist_yet_cannot_be_replayed(bootstrap_servers: str, tmp_path: Path) -> None:
    values = {"topic": "nothing", "bootstrap": bootstrap_servers, "table": f"delta:{tmp_path / 't'}"}
    with pytest.raises(PipelineError, match="nothing to replay"):
        replay(PipelineDefinition.from_mapping(values), "somewhere")
