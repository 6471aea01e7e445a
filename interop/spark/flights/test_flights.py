"""Real events through all of the pipeline.

They are landed, upserted, audited and replayed, and the damaged ones are set aside.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.spark.flights.events import (
    DAMAGED_EVERY,
    FLIGHT_SCHEMA,
    airport_events,
    flight_events,
    flights,
    plane_events,
)
from interop.spark.flights.produce import produce
from kafkapy.pipeline import Pipeline
from kafkapy.pipeline.topics import Topics

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.replay.replay import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
FLIGHTS = 20_000
DAMAGED = FLIGHTS // DAMAGED_EVERY
SUFFIX = ".example"
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def written(bootstrap_servers: str) -> dict[str, int]:
    return produce(bootstrap_servers, FLIGHTS, suffix=SUFFIX)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


def pipeline(topic: str, bootstrap: str, name: str = "") -> Pipeline:
    found = Pipeline(topic + SUFFIX, bootstrap=bootstrap, name=name or topic)
    return found.dead_letter(f"{name or topic}.dlq").max_offsets_per_trigger(9_000)


def by_carrier(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Departures, miles, cancelled flights of each carrier."""
    counts, miles, cancelled = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        counts[row["carrier"]] += 1
        miles[row["carrier"]] += row["distance"]
        cancelled[row["carrier"]] += row["air_time"] is None
    return {carrier: (counts[carrier], miles[carrier], cancelled[carrier]) for carrier in counts}


@pytest.fixture(scope="module")
def in_delta(spark: SparkSession, bootstrap_servers: str, written: dict[str, int], lake: Path) -> Pipeline:
    """Departures with columns that were inferred."""
    made = pipeline("flights", bootstrap_servers, "flights-delta").json().to_delta(lake / "delta")
    made.run(once=True, spark=spark)
    return made


def test_departures_are_landed_with_inferred_columns(spark: SparkSession, in_delta: Pipeline) -> None:
    progress = in_delta.status().progress
    assert progress is not None
    assert (progress.total_rows, progress.dead_letters) == (FLIGHTS, DAMAGED)
    assert progress.batch >= 2
    check(spark, in_delta)


@pytest.mark.parametrize(("kind", "partition_by"), [("iceberg", "day(scheduled)"), ("parquet", "origin")])
def test_departures_are_landed_with_a_schema_and_partitions(
    spark: SparkSession,
    bootstrap_servers: str,
    written: dict[str, int],
    lake: Path,
    kind: str,
    partition_by: str,
) -> None:
    made = pipeline("flights", bootstrap_servers, f"flights-{kind}").json(FLIGHT_SCHEMA)
    made = made.partition_by(partition_by)
    made = made.to_iceberg(lake / kind) if kind == "iceberg" else made.to_parquet(lake / kind)
    result = made.run(once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (FLIGHTS, DAMAGED)
    check(spark, made)


def check(spark: SparkSession, made: Pipeline) -> None:
    """The table against the topic, and against the CSV file."""
    report = made.audit(spark=spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": FLIGHTS, "dead_letters": DAMAGED}

    from kafkapy.pipeline.tables import open_table

    table = open_table(spark, made.definition.table, partition_by=made.definition.partition_by).read()
    rows = [row.asDict() for row in table.select("carrier", "distance", "air_time").collect()]
    assert by_carrier(rows) == by_carrier(flights(FLIGHTS))


@pytest.mark.parametrize(("topic", "kind"), [("planes", "delta"), ("airports", "iceberg")])
def test_a_compacted_topic_becomes_a_table_with_its_last_values(
    spark: SparkSession, bootstrap_servers: str, written: dict[str, int], lake: Path, topic: str, kind: str
) -> None:
    """Planes by the record key, airports by a column."""
    made = pipeline(topic, bootstrap_servers).json()
    made = made.to_delta(lake / topic) if kind == "delta" else made.upsert("faa").to_iceberg(lake / topic)
    result = made.run(once=True, spark=spark)
    assert result.dead_letters == 0
    report = made.audit(spark=spark)
    assert report.ok, str(report)

    from kafkapy.pipeline.tables import open_table

    table = open_table(spark, made.definition.table).read()
    events = plane_events(FLIGHTS) if topic == "planes" else airport_events()
    last = {event.key: event.value for event in events}
    expected = {key: json.loads(value) for key, value in last.items() if value is not None}
    assert report.notes == {"matching": len(expected), "deleted": len(last) - len(expected)}
    columns = [name for name in table.columns if not name.startswith("_")]
    read = {bytes(row["_key"]).decode(): row.asDict() for row in table.select("_key", *columns).collect()}
    assert {key: {name: row[name] for name in columns} for key, row in read.items()} == expected


def test_a_replay_gives_the_events_again(
    spark: SparkSession, bootstrap_servers: str, in_delta: Pipeline
) -> None:
    result = replay(in_delta.definition, f"flights.sfo{SUFFIX}", where="dest = 'SFO'", spark=spark)
    events = [event for event in flight_events(FLIGHTS) if _is_good(event.value)]
    original = [
        (
            event.key.encode(),
            event.timestamp,
            {name: value for name, value in flight.items() if value is not None},
        )
        for event, flight in zip(events, flights(FLIGHTS), strict=True)
        if flight["dest"] == "SFO"
    ]
    again = [
        (message.key(), message.timestamp()[1], json.loads(message.value()))
        for message in Topics(bootstrap_servers).consume(f"flights.sfo{SUFFIX}")
    ]
    assert result.records == len(original)
    assert sorted(again, key=_place) == sorted(original, key=_place)


def _place(record: tuple[bytes, int, dict[str, Any]]) -> tuple[bytes, int]:
    return record[:2]


def _is_good(value: bytes | None) -> bool:
    try:
        return isinstance(json.loads(value or b""), dict)
    except ValueError:
        return False


def test_the_lines_of_the_readme_run(bootstrap_servers: str, tmp_path: Path) -> None:
    readme = Path(__file__).with_name("README.md").read_text()
    (block,) = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    serve, *lines = block.splitlines()
    assert serve == "kafkapy serve --data data &"  # which is running already
    script = "\n".join(
        [
            "set -e",
            f'kafkapy() {{ "{sys.executable}" -m kafkapy "$@"; }}',
            f'python() {{ "{sys.executable}" "$@"; }}',
            *lines,
        ]
    )
    paths = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "KAFKAPY_BOOTSTRAP": bootstrap_servers, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "Clean: table and topic agree." in ran.stdout
    sfo = sum(flight["dest"] == "SFO" for flight in flights(FLIGHTS))
    assert f"{sfo:,} records written into flights.sfo" in ran.stdout
    assert "Traceback" not in said
