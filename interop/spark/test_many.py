"""Many pipelines in one Spark: what each writes, and how they fail and begin alone."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.parquet import read_table

from interop.conftest import MakeTopic
from interop.spark.following import following
from interop.spark.test_runs import group_offsets, numbered, produce
from interop.support.waiting import wait_until
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.run import many
from kafkapy.pipeline.run.many import Outcome, run_many
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics
from tests.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def rows(folder: Path) -> int:
    """The rows of a Parquet table."""
    return sum(read_table(file, columns=["_offset"]).num_rows for file in folder.glob("batch=*/*.parquet"))


def follow(
    file: PipelinesFile, spark: SparkSession, **how: Any
) -> contextlib.AbstractContextManager[Future[list[Outcome]]]:
    """A run of many in a thread, asked to stop at the end."""
    return following(lambda stop: run_many(file, every="200ms", spark=spark, stop=stop, **how))


def test_each_pipeline_writes_its_table_and_one_that_fails_stops_no_other(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    first, broken, missing = make_topic(), make_topic(), "no-such-topic"
    matched = [make_topic(partitions=2) for _ in range(3)]
    for topic in (first, *matched):
        produce(bootstrap_servers, topic, numbered(range(20)))
    produce(bootstrap_servers, broken, [("a", '{"id": "x"}')])
    schema = {"kind": "json", "schema": "id BIGINT, name STRING"}
    common = {"bootstrap": bootstrap_servers, "format": schema, "group": f"{first}-lake"}
    text = json.dumps(
        {
            **common,
            "table": "parquet:{topic}",
            "pipelines": [
                {"topic": first, "table": f"delta:{first}"},
                {"topic": broken},
                {"topic": missing},
                {"topics": "|".join((*matched, first)), "max_offsets_per_trigger": 12},
            ],
        }
    )
    file = PipelinesFile.parse(text, source="lake.yaml", folder=tmp_path)
    notes: list[str] = []
    outcomes = {one.definition.name: one for one in run_many(file, once=True, spark=spark, note=notes.append)}
    assert set(outcomes) == {first, broken, missing, *matched}
    assert spark.read.format("delta").load(str(tmp_path / first)).count() == 20
    for topic in matched:
        result = outcomes[topic].result
        assert result is not None
        assert (result.rows, result.batches, rows(tmp_path / topic)) == (20, 2, 20)
    told = {name: str(one.error) for name, one in outcomes.items() if one.error is not None}
    assert set(told) == {broken, missing}
    assert f"the record {broken}-0-0 does not match the schema" in told[broken]
    assert "there is no topic 'no-such-topic'" in told[missing]
    assert set(told.values()) < {line.removeprefix(f"{missing}: ") for line in notes}
    assert any(line.startswith(f"{matched[0]}: batch 1: ") for line in notes)
    offsets = group_offsets(bootstrap_servers, f"{first}-lake")
    assert sum(offsets[topic, number] for topic in matched for number in (0, 1)) == 60
    # Nothing of it is left in the session, for which another pipeline may have been made.
    assert not {one.name for one in spark.streams.active}


def test_a_new_topic_becomes_a_table_without_a_restart(
    spark: SparkSession,
    bootstrap_servers: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many, "LOOK", 0.5)
    first = make_topic()
    name = first.rpartition("-")[0]
    produce(bootstrap_servers, first, numbered(range(3)))
    values = {"bootstrap": bootstrap_servers, "topics": f"{name}.*", "table": "parquet:{topic}"}
    file = PipelinesFile.parse(json.dumps(values), source="lake.yaml", folder=tmp_path)
    (port,) = free_ports(1)
    with follow(file, spark, metrics=str(port)) as done:
        wait_until(lambda: rows(tmp_path / first) == 3 or done.done(), timeout=120)
        second = f"{first}.new"
        assert Topics(bootstrap_servers).create(second)
        produce(bootstrap_servers, second, numbered(range(7)))
        wait_until(lambda: rows(tmp_path / second) == 7 or done.done(), timeout=120)
        produce(bootstrap_servers, first, numbered(range(3, 5)))
        wait_until(lambda: rows(tmp_path / first) == 5 or done.done(), timeout=120)

        def scraped() -> list[str]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                return str(page.read(), "utf-8").splitlines()

        def counted(topic: str, count: int) -> str:
            return f'kafkapy_pipeline_rows_total{{pipeline="{topic}",topic="{topic}"}} {count}.0'

        wait_until(lambda: {counted(first, 5), counted(second, 7)} <= {*scraped()}, timeout=30)
        assert any(
            line.startswith("kafkapy_pipeline_lag{") and f'topic="{second}"' in line for line in scraped()
        )
    assert {one.definition.name: one.result and one.result.rows for one in done.result()} == {
        first: 5,
        second: 7,
    }


def test_a_limit_ends_one_pipeline_and_leaves_the_table_as_it_is(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    slow, quick = make_topic(), make_topic()
    for topic in (slow, quick):
        produce(bootstrap_servers, topic, numbered(range(10)))
    values = {
        "bootstrap": bootstrap_servers,
        "table": "parquet:{topic}",
        "pipelines": [{"topic": slow, "max_batch_time": "1ms"}, {"topic": quick}],
    }
    file = PipelinesFile.parse(json.dumps(values), source="lake.yaml", folder=tmp_path)
    of_slow, of_quick = run_many(file, once=True, spark=spark)
    assert isinstance(of_slow.error, LimitError)
    assert of_slow.by_limit
    assert str(of_slow.error).startswith(f"{slow}: batch 0 has taken more than 1ms (max_batch_time); ")
    assert of_quick.result is not None
    assert of_quick.result.rows == 10
    assert State(tmp_path / slow).running is None
