"""Messages of Oracle GoldenGate: a table of them is the source table.

So other readers find it. KAFKAPY_SEED says what follows from chance.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_formats import Parsed
from interop.spark.test_runs import produce
from kafkapy.pipeline import Pipeline, PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.lineage.lineage import lineage
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
ROW = "ID BIGINT NOT NULL, NAME STRING, AMOUNT BIGINT"
Row = dict[str, Any]


def message(operation: str | None, before: Row | None = None, after: Row | None = None) -> str:
    """As the JSON formatter writes it for the Kafka handler, with `mode=op`."""
    whole = {
        "table": "SHOP.ORDERS",
        "op_type": operation,
        "op_ts": "2013-06-02 22:14:41.000000",
        "current_ts": "2015-09-18T10:17:49.899000",
        "pos": "00000000000000004338",
        "primary_keys": ["ID"],
        "tokens": {"R": "AADPkvAAEAAEqLzAAC"},
        "before": before,
        "after": after,
    }
    return json.dumps({name: value for name, value in whole.items() if value is not None})


def row(number: int, name: str | None = "a", amount: int | None = 5) -> Row:
    return {"ID": number, "NAME": name, "AMOUNT": amount}


def marked(row: Row, *missing: str) -> Row:
    """As with a mark beside each column, where missing ones are null."""
    found: Row = {}
    for name, value in row.items():
        found[name] = None if name in missing else value
        found[f"{name}_isMissing"] = name in missing
    return found


def test_messages_become_rows_deletes_and_errors(spark: SparkSession, tmp_path: Path) -> None:
    kind = {"kind": "json", "changes": "goldengate", "schema": ROW}
    values = {"topic": "orders", "table": "delta:/lake/orders", "format": kind, "key": "id"}
    reader = open_format(PipelineDefinition.from_mapping(values), State(tmp_path / "table"))
    without = "does not have the column {}, which its source did not log"
    cases: list[tuple[str | None, Any]] = [
        (message("I", None, row(1)), row(1)),
        (message("I", None, row(1, None)), row(1, None)),
        (message("I", None, {"ID": 1}), row(1, None, None)),
        (message("U", row(1), row(1, "b")), row(1, "b")),
        (message("U", {}, row(1, None, 9)), row(1, None, 9)),
        (message("U", None, row(1, "b")), row(1, "b")),
        (message("U", {"ID": 1, "NAME": "a"}, marked(row(1, None))), row(1, None)),
        (message("D", row(1)), ("delete", row(1))),
        (message("D", {"ID": 1}), ("delete", row(1, None, None))),
        (None, "changes"),
        # What the source did not log.
        (message("U", row(1), {"ID": 1, "NAME": "b"}), without.format("AMOUNT")),
        (message("U", {"ID": 1}, {"ID": 1, "AMOUNT": 1}), without.format("NAME")),
        (message("U", {"ID": 1}, marked(row(1), "AMOUNT")), without.format("AMOUNT")),
        (message("I", None, marked(row(1), "NAME")), without.format("NAME")),
        # Another key.
        (message("U", row(1), row(2)), "changes the key column ID, which is not followed"),
        (message("U", {"ID": 1}, row(2)), "changes the key column ID, which is not followed"),
        (message("T"), "truncates the source table (op_type T), which is not followed"),
        (message("X", None, row(1)), "has an unknown op_type: X"),
        (message(None, None, row(1)), "is no change: it has no op_type"),
        (message("I"), "is a change without a row: after is missing"),
        (message("D"), "is a change without a row: before is missing"),
        (message("I", None, row(1, "a") | {"AMOUNT": 1.5}), "does not match the schema"),
        # `mode=tx` puts all changes of a transaction into one value.
        (message("I", None, row(1)) + message("I", None, row(2)), "is not valid JSON"),
    ]
    encoded = [None if value is None else value.encode() for value, _ in cases]
    found = [
        one._error
        or one._left_out
        or (("delete", one._data.asDict()) if one._deleted else one._data.asDict())
        for one in Parsed(spark, reader, encoded).frame.collect()
    ]
    for (value, expected), told in zip(cases, found, strict=True):
        if isinstance(expected, str) and expected.startswith("does not match"):
            assert str(told).startswith(expected), value
        else:
            assert told == expected, value


class Source:
    """A table with the messages that GoldenGate writes of it, where all columns are logged."""

    def __init__(self, seed: int, partitions: int) -> None:
        self._chance, self._partitions = random.Random(seed), partitions
        self.rows: dict[int, Row] = {}
        self._next = 0

    def messages(self, count: int) -> list[tuple[int, str]]:
        return [self._message() for _ in range(count)]

    def _message(self) -> tuple[int, str]:
        dice, known = self._chance.random(), list(self.rows)
        if dice < 0.4 or not known:
            self._next += 1
            number, told = self._next, self._put(self._next)
            return number % self._partitions, message("I", None, told)
        number = self._chance.choice(known)
        before = self.rows.pop(number)
        if dice < 0.6:
            former = before if self._chance.random() < 0.5 else {"ID": number}
            return number % self._partitions, message("D", former)
        return number % self._partitions, message("U", before, self._put(number))

    def _put(self, number: int) -> Row:
        name = None if self._chance.random() < 0.2 else f"n{self._chance.random()}"
        self.rows[number] = row(number, name, self._chance.randrange(2**60))
        return self.rows[number]


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_a_table_of_messages_is_the_source_table(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, table: str
) -> None:
    print(f"seed {SEED}")
    topic, source = make_topic(3), Source(SEED, 3)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="goldengate").upsert("ID")
    pipeline = pipeline.to_delta(tmp_path / "t") if table == "delta" else pipeline.to_iceberg(tmp_path / "t")
    definition = pipeline.dead_letter(f"{topic}.dlq").definition
    for count in (300, 20):
        for partition, value in source.messages(count):
            produce(bootstrap_servers, topic, [(None, value)], partition=partition)
        produce(bootstrap_servers, topic, [(None, message("U", {"ID": 1}, {"ID": 10**6, "NAME": "b"}))])
        run(definition, once=True, spark=spark)
    for reader, found in contents(definition.table):
        if table == "iceberg" and reader != "pyiceberg":
            continue  # whose files have rows that others mark as deleted
        listed = found.select(["ID", "NAME", "AMOUNT"]).to_pylist()
        assert len(listed) == len(source.rows), reader
        assert {one["ID"]: one for one in listed} == source.rows, reader
    progress = State.of(definition).progress
    assert progress is not None
    assert progress.dead_letters == 2
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert report.notes["matching"] == len(source.rows)


def test_a_change_that_is_not_followed_has_a_lineage(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(ROW, changes="goldengate").upsert("ID")
    definition = pipeline.dead_letter(f"{topic}.dlq").to_delta(tmp_path / "t").definition
    values = [message("I", None, row(1)), message("U", {"ID": 1}, row(2)), message("D", {"ID": 1})]
    produce(bootstrap_servers, topic, [(None, value) for value in values])
    assert run(definition, once=True, spark=spark).dead_letters == 1
    told = [lineage(definition, source=f"{topic}-0-{offset}", spark=spark) for offset in range(3)]
    assert not any(one.missing for one in told)
    assert told[1].dead_letter == "changes the key column ID, which is not followed"
