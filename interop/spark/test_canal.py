"""Messages of Canal: a table of them is the source table, as other readers read it.

KAFKAPY_SEED says what follows from chance.
"""

from __future__ import annotations

import datetime
import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_formats import Parsed
from interop.spark.test_runs import produce
from kafkapy.pipeline import Pipeline, PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.audit.repair import repair
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
ROW = "id BIGINT NOT NULL, name STRING NOT NULL, weight DECIMAL(10,2)"
Row = dict[str, str | None]


def message(kind: str, rows: list[Row] | None, old: list[Row] | None = None, **more: Any) -> str:
    """As Canal writes it with `canal.mq.flatMessage = true`."""
    whole = {
        "data": rows,
        "database": "shop",
        "es": 1589373515000,
        "id": 3,
        "isDdl": rows is None,
        "mysqlType": {"id": "bigint", "name": "varchar(40)", "weight": "decimal(10,2)"},
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "name": 12, "weight": 3},
        "table": "orders",
        "ts": 1589373515477,
        "type": kind,
    }
    return json.dumps({**whole, **more})


def row(number: int, name: str | None = "a", weight: str | None = "1.50") -> Row:
    return {"id": str(number), "name": name, "weight": weight}


def parser(tmp_path: Path, schema: str = ROW, key: Any = "id") -> Any:
    kind = {"kind": "json", "changes": "canal", "schema": schema}
    values = {"topic": "orders", "table": "delta:/lake/orders", "format": kind, "key": key}
    return open_format(PipelineDefinition.from_mapping(values), State(tmp_path / "table"))


def outcomes(spark: SparkSession, reader: Any, values: list[str | None]) -> list[list[Any]]:
    """What comes of each value.

    Rows are dicts, deleted ones their ids after a minus; others are an error, or why they were left out.
    """
    found: list[list[Any]] = [[] for _ in values]
    encoded = [None if value is None else value.encode() for value in values]
    for one in Parsed(spark, reader, encoded).frame.collect():
        told = one._error or one._left_out or (f"-{one._data.id}" if one._deleted else one._data.asDict())
        found[one.offset].append(told)
    return found


def read(number: int, name: str | None = "a", weight: str | None = "1.50") -> dict[str, Any]:
    return {"id": number, "name": name, "weight": weight and Decimal(weight)}


def test_messages_become_rows_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    wrong = "does not match the schema: data."
    cases: list[tuple[str | None, list[Any]]] = [
        (message("INSERT", [row(1), row(2, "b", None)]), [read(1), read(2, "b", None)]),
        (message("UPDATE", [row(1, "x")], [{"name": "a"}]), [read(1, "x")]),
        (message("UPDATE", [row(1, "x")], None), [read(1, "x")]),
        (message("DELETE", [row(1), row(2)]), ["-1", "-2"]),
        # A deleted row may have its key alone.
        (message("DELETE", [{"id": "1"}]), ["-1"]),
        # Another key: 1 becomes 3, and 4 becomes 5 after 5 became 6.
        (message("UPDATE", [row(3)], [{"id": "1"}]), ["-1", read(3)]),
        (message("UPDATE", [row(6), row(5)], [{"id": "5"}, {"id": "4"}]), ["-4", read(5), read(6)]),
        # The last change of a key counts.
        (message("INSERT", [row(1, "a"), row(2), row(1, "z")]), [read(1, "z"), read(2)]),
        (message("CREATE", None), ["changes"]),
        (message("ALTER", None), ["changes"]),
        (message("SOMETHING", None), ["changes"]),
        (message("TIDB_WATERMARK", None, isDdl=False), ["changes"]),
        (None, ["changes"]),
        (message("TRUNCATE", None), ["truncates the source table (type TRUNCATE), which is not followed"]),
        (message("ERASE", None), ["drops the source table (type ERASE), which is not followed"]),
        (message("MERGE", [row(1)]), ["has an unknown type: MERGE"]),
        (message("INSERT", []), ["is a change without a row: data is missing"]),
        (message("INSERT", None, isDdl=False), ["is a change without a row: data is missing"]),
        ('{"id": 1}', ["is no change: it has no type"]),
        ("{", ["is not valid JSON"]),
        # One wrong row is an error of the whole record.
        (message("INSERT", [row(1), {"id": "2.5", "name": "b"}]), [f"{wrong}id is not BIGINT but 2.5"]),
        (message("INSERT", [row(1), row(2, None)]), [f"{wrong}name is missing"]),
        (message("INSERT", [row(1, weight="1.239")]), [f"{wrong}weight is not DECIMAL(10,2) but 1.239"]),
        (message("DELETE", [row(1), {"name": "b"}]), ["has no value in the key column id"]),
    ]
    found = outcomes(spark, parser(tmp_path), [value for value, _ in cases])
    assert found == [expected for _, expected in cases]


UTC = datetime.UTC
_MOMENT = datetime.datetime(2020, 5, 13, 10, 11, 12, 500_000)
TEXTS: list[tuple[str, str, Any]] = [
    # the column, the text, its value; None if it has none
    ("STRING", "", ""),
    ("BOOLEAN", "1", True),
    ("BOOLEAN", "false", False),
    ("BOOLEAN", "2", None),
    ("SMALLINT", "-32768", -32768),
    ("SMALLINT", "32768", None),
    ("INT", "1e3", None),
    ("BIGINT", "9223372036854775807", 2**63 - 1),
    ("BIGINT", "9223372036854775808", None),
    ("BIGINT", " 1", None),
    ("DECIMAL(4,2)", "12.3400", Decimal("12.34")),
    ("DECIMAL(4,2)", "123.4", None),
    ("DECIMAL(20,0)", "18446744073709551615", Decimal(2**64 - 1)),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "1.5E300", 1.5e300),
    ("DOUBLE", "1e999", None),
    ("DOUBLE", "NaN", None),
    ("DOUBLE", "9007199254740992", 2.0**53),
    ("DOUBLE", "9007199254740993", None),
    ("DOUBLE", "1" + "0" * 20, None),
    ("FLOAT", "3.5", 3.5),
    ("FLOAT", "16777217", None),
    ("DATE", "2020-02-29", datetime.date(2020, 2, 29)),
    ("DATE", "2020-02-30", None),
    ("DATE", "0000-00-00", None),
    ("DATE", "2020-02-29 00:00:00", None),
    ("TIMESTAMP", "2020-05-13 10:11:12.5", _MOMENT),
    ("TIMESTAMP", "2020-05-13T12:11:12.500000+02:00", _MOMENT),
    ("TIMESTAMP", "2020-05-13 10:11:12.1234567", None),
    ("TIMESTAMP", "0000-00-00 00:00:00", None),
    ("TIMESTAMP_NTZ", "2020-05-13 10:11:12.5", _MOMENT),
    ("TIMESTAMP_NTZ", "2020-05-13 10:11:12Z", None),
]


def test_a_text_is_the_value_that_its_column_holds_exactly(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(len(TEXTS))]
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in zip(names, TEXTS, strict=True))
    reader = parser(tmp_path, f"id BIGINT, {columns}")
    values: list[str | None] = [
        message("INSERT", [{"id": "1", name: text}]) for name, (_, text, _) in zip(names, TEXTS, strict=True)
    ]
    for name, (kind, text, value), (told,) in zip(names, TEXTS, outcomes(spark, reader, values), strict=True):
        if value is None:
            assert told == f"does not match the schema: data.{name} is not {kind} but {text}"
        else:
            assert told[name] == value, (kind, text)


class Source:
    """A table of a database with the messages that Canal writes of it, by key in partitions."""

    def __init__(self, seed: int, partitions: int) -> None:
        self._chance, self._partitions = random.Random(seed), partitions
        self.rows: dict[int, Row] = {}
        self._next: list[int] = [*range(partitions)]

    def messages(self, count: int) -> list[tuple[int, str]]:
        return [self._message(self._chance.randrange(self._partitions)) for _ in range(count)]

    def _message(self, partition: int) -> tuple[int, str]:
        chance = self._chance
        known = [one for one in self.rows if one % self._partitions == partition]
        some = chance.sample(known, min(len(known), chance.randint(1, 5)))
        dice = chance.random()
        if dice < 0.4 or not some:
            new = [self._put(self._new(partition)) for _ in range(chance.randint(1, 5))]
            return partition, message("INSERT", new)
        if dice < 0.5:
            return partition, message(chance.choice(["ALTER", "CINDEX", "CREATE"]), None)
        if dice < 0.65:
            return partition, message("DELETE", [self.rows.pop(one) for one in some])
        old: list[Row] = []
        new = []
        for one in some:
            before = self.rows.pop(one)
            after = self._put(one if dice < 0.85 else self._new(partition))
            old.append({name: value for name, value in before.items() if after[name] != value})
            new.append(after)
        return partition, message("UPDATE", new, old)

    def _new(self, partition: int) -> int:
        """A key that was never used, or one that is free again."""
        if self._chance.random() < 0.3 and self._next[partition] > self._partitions:
            number: int = self._chance.randrange(partition, self._next[partition], self._partitions)
            if number not in self.rows:
                return number
        self._next[partition] += self._partitions
        return self._next[partition] - self._partitions

    def _put(self, number: int) -> Row:
        weight = None if self._chance.random() < 0.1 else f"{self._chance.randrange(10**6) / 100:.2f}"
        self.rows[number] = row(number, f"n{self._chance.random()}", weight)
        return self.rows[number]


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_a_table_of_messages_is_the_source_table(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, table: str
) -> None:
    print(f"seed {SEED}")
    topic, source = make_topic(3), Source(SEED, 3)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="canal").upsert("id")
    pipeline = pipeline.to_delta(tmp_path / "t") if table == "delta" else pipeline.to_iceberg(tmp_path / "t")
    definition = pipeline.dead_letter(f"{topic}.dlq").definition
    marks = letters = 0
    for count in (40, 5, 300):  # batches of few records too
        for partition, value in source.messages(count):
            marks += '"isDdl": true' in value
            produce(bootstrap_servers, topic, [(None, value)], partition=partition)
        produce(bootstrap_servers, topic, [(None, message("INSERT", [row(10**6), row(10**7, None)]))])
        letters += 1
        run(definition, once=True, spark=spark)
    expected = {int(one["id"] or 0): (one["name"], one["weight"]) for one in source.rows.values()}
    for reader, found in contents(definition.table):
        if table == "iceberg" and reader != "pyiceberg":
            continue  # whose files have rows that others mark as deleted
        listed = found.select(["id", "name", "weight"]).to_pylist()
        assert len(listed) == len(expected), reader
        assert {
            one["id"]: (one["name"], one["weight"] if one["weight"] is None else str(one["weight"]))
            for one in listed
        } == expected, reader
    progress = State.of(definition).progress
    assert progress is not None
    assert (progress.left_out, progress.dead_letters) == (marks, letters)
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert report.notes["matching"] == len(expected)


def test_a_record_of_several_rows_has_a_lineage_and_no_repair(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="canal").upsert("id")
    definition = pipeline.to_delta(tmp_path / "t").definition
    sent = [
        message("INSERT", [row(1), row(2), row(3)]),
        message("UPDATE", [row(1, "b"), row(2, "b")], [{"name": "a"}, {"name": "a"}]),
        message("DELETE", [row(1), row(2)]),
    ]
    produce(bootstrap_servers, topic, [(None, value) for value in sent])
    run(definition, once=True, spark=spark)
    told = [lineage(definition, source=f"{topic}-0-{offset}", spark=spark) for offset in range(3)]
    assert [len(one.rows) for one in told] == [1, 0, 0]
    assert [one.missing for one in told] == [False] * 3
    assert told[1].reason == f"{topic}-0-2 deletes its key"
    assert told[2].reason == "it deletes the row of its key"
    with pytest.raises(PipelineError, match="repair: rows are mended by the places of their records"):
        repair(definition, agree=lambda plan: True, spark=spark)


def test_the_time_of_a_row_is_that_of_its_own_key(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Also if the timestamps of a partition go back: 2 was there at 3,000, and 1 only at 2,000."""
    topic = make_topic(2)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="canal").upsert("id")
    definition = pipeline.to_delta(tmp_path / "t").definition
    for time, value in [
        (2_000, message("INSERT", [row(1)])),
        (3_000, message("INSERT", [row(2)])),
    ]:
        produce(bootstrap_servers, topic, [(None, value)], partition=0, timestamp=time)
    run(definition, once=True, spark=spark)
    back = message("UPDATE", [row(1, "back"), row(2, "back")], [{"name": "a"}, {"name": "a"}])
    produce(bootstrap_servers, topic, [(None, back)], partition=0, timestamp=1_000)
    run(definition, once=True, spark=spark)
    other = message("UPDATE", [row(1, "other"), row(2, "other")], [{"name": "a"}, {"name": "a"}])
    produce(bootstrap_servers, topic, [(None, other)], partition=1, timestamp=2_500)
    run(definition, once=True, spark=spark)
    _, found = next(one for one in contents(definition.table) if one[0] == "deltalake")
    assert dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == {
        1: "other",
        2: "back",
    }
