"""One poisonous record of each kind among many good ones.

All good ones are rows with exactly what was sent, as other readers read them. KAFKAPY_PIPELINE_GOOD_RECORDS
says how many there are (5,000), KAFKAPY_SEED where the poison is among them.
"""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_runs import Told, produce
from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.run.run import RunResult, run
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
GOOD = int(os.environ.get("KAFKAPY_PIPELINE_GOOD_RECORDS", "5000"))
SEED = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
FIRST = 2**53  # from which on a DOUBLE holds only every second number
SCHEMA = "id BIGINT, price DECIMAL(10,2), amount DOUBLE, name STRING, at TIMESTAMP, n STRUCT<x: BIGINT>"
# A record without an id, which no type refuses, may be a row.
POISON = [
    '{"ID": 1}',
    '{"_offset": 1}',
    '{"batch": 1}',
    '{"_pos": 1}',
    '{"timestamp_day": 1}',
    '{"id": "n/a"}',
    '{"id": 1.5}',
    '{"id": %s}' % ("9" * 39),
    '{"id": 1, "name": "\\ud800"}',
    '{"id": 1.0e1}',
    '{"at": "T10:00", "price": 1.239}',
    '{"id": {"x": 1}}',
    '{"id": 1, "name": 0.12345678901234567890}',
    '{"id": 1, "name": 1e400}',
    '{"id": 1, "price": "1,5"}',
    '{"deep": ' * 400 + "1" + "}" * 400,
]


def good(number: int) -> dict[str, Any]:
    at = f"2026-01-31T10:00:00.{number % 10**6:06d}+00:00"
    sent = {"id": FIRST + number, "price": f"{number}.25", "amount": number + 0.5, "name": f"größe {number}"}
    return {**sent, "at": at, "n": {"x": number}}


def poisoned_run(
    pipeline: Pipeline, topic: str, bootstrap: str, target: TableTarget, spark: SparkSession
) -> tuple[RunResult, Told]:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    # Its decimals are numbers, with all their digits.
    values = [json.dumps(good(number)).replace('"price": "', '"price": ') for number in range(GOOD)]
    values = [value.replace('.25"', ".25") for value in values]
    for one in POISON:
        values.insert(chance.randrange(len(values)), one)
    produce(bootstrap, topic, [(None, value) for value in values])
    told = Told()
    definition = pipeline.dead_letter(f"{topic}.dlq").definition
    return run(definition, once=True, spark=spark, progress=told), told


def of_good_ones(target: TableTarget, reader: str, table: Any) -> dict[int, dict[str, Any]]:
    names = ["id", "price", "amount", "name", "at", "n"]
    found = {row["id"]: row for row in table.select(names).to_pylist() if row["id"] is not None}
    rows_with_ids = sum(1 for one in table.column("id").to_pylist() if one is not None)
    assert len(found) == rows_with_ids, reader
    return found


def test_poison_takes_no_good_record_and_no_digit_of_inferred_columns(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, target: TableTarget
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json().partition_by("day(timestamp)")
    pipeline = getattr(pipeline, f"to_{target.format}")(target.location)
    result, told = poisoned_run(pipeline, topic, bootstrap_servers, target, spark)
    assert result.rows + result.dead_letters == GOOD + len(POISON)
    assert result.dead_letters >= 7
    expected = {one["id"]: {**one, "price": float(one["price"])} for one in map(good, range(GOOD))}
    for reader, table in contents(target):
        assert of_good_ones(target, reader, table) == expected, reader
    assert any(note.startswith("Columns inferred from ") for note in told.notes)


def test_poison_takes_no_good_record_and_no_digit_of_given_columns(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, target: TableTarget
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA)
    pipeline = getattr(pipeline, f"to_{target.format}")(target.location)
    result, _ = poisoned_run(pipeline, topic, bootstrap_servers, target, spark)
    assert (result.rows, result.dead_letters) == (
        GOOD + 6,
        len(POISON) - 6,
    )  # it names none of the other fields
    expected = {one["id"]: {**one, "price": Decimal(one["price"])} for one in map(good, range(GOOD))}
    for reader, table in contents(target):
        found = of_good_ones(target, reader, table)
        for row in found.values():
            row["at"] = row["at"].isoformat(timespec="microseconds")
        assert found == expected, reader
