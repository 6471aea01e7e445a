"""SIGKILL in the middle of batches, of drivers and of the broker.

No row is missing, and none is there twice.

KAFKAPY_PIPELINE_KILLS says how many drivers are killed (5), KAFKAPY_SEED what follows from chance.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import MakeTopic
from interop.spark.kill_load import Expected, Load, records
from interop.spark.kill_run import BEFORE, BETWEEN, CHECKOUT, JOINED, JOINING, PIPELINES, KillRun
from interop.support.waiting import wait_until
from kafkapy.pipeline import PipelineDefinition, checkpoint
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State
from tests.servers.kafkapy_process import KafkapyProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("KAFKAPY_PIPELINE_KILLS", "5"))
SEED = int(os.environ.get("KAFKAPY_SEED", random.SystemRandom().randrange(10**6)))
RECORDS_A_KILL = 4_000
PARTITION = {"delta": "_partition", "iceberg": "_kafka_partition", "parquet": "_partition"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkapyProcess]:
    """One of its own, to be killed."""
    with KafkapyProcess(tmp_path_factory.mktemp("broker")) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        settings = {"retention.ms": "-1"}
        topics = [
            NewTopic("events", 3, 1, config=settings),
            NewTopic("accounts", 3, 1, config={**settings, "cleanup.policy": "compact"}),
        ]
        for future in admin.create_topics(topics).values():
            future.result(30)
        del admin  # it would tell of each kill
        yield started


@pytest.fixture(scope="module")
def killed(broker: KafkapyProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillRun]:
    """Pipelines after many kills, and a last run to the end of their topics."""
    print(f"seed {SEED}")
    run = KillRun(tmp_path_factory.mktemp("kills"), broker, SEED)
    topics = ["events", "accounts"]
    load = Load(broker.bootstrap_servers, topics, at_once=RECORDS_A_KILL * KILLS, seed=SEED)
    try:
        run.kill_many(KILLS)
        load.end()
        run.finish()
        print(f"killed: {dict(run.kills)}, the broker {run.broker_kills} times; within batches:")
        for (name, moment), count in sorted(run.moments.items()):
            print(f"  {name} {count} times {moment}")
        yield run
    finally:
        load.end()
        run.end()


def test_drivers_and_broker_are_killed_within_batches(killed: KillRun) -> None:
    assert sum(killed.kills.values()) == KILLS
    assert killed.broker_kills >= KILLS
    assert {name for name, _ in killed.moments} == PIPELINES.keys()
    assert {moment for _, moment in killed.moments} == {BEFORE, BETWEEN}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_audit_finds_nothing_missing_and_nothing_twice(
    name: str, killed: KillRun, spark: SparkSession
) -> None:
    report = audit(str(killed.tables / name), spark)
    assert report.ok, report
    assert report.findings == ()
    state = State(killed.tables / name)
    assert checkpoint.committed_offsets(state) == checkpoint.planned_offsets(state)


@pytest.mark.parametrize("name", ["delta", "iceberg", "parquet"])
def test_each_good_record_is_one_row_and_each_bad_one_a_dead_letter(
    name: str, killed: KillRun, spark: SparkSession
) -> None:
    """By a plain client and the format's own reader, without kafkapy's code."""
    expected = Expected.of(killed.broker.bootstrap_servers, "events")
    rows = spark.read.format(name).load(str(killed.tables / name))
    selected = rows.select(PARTITION[name], "_offset", "id").collect()
    found = Counter(((row[0], row[1]), row[2]) for row in selected)
    assert found == Counter(expected.good.items())
    letters = {
        dict(message.headers() or [])["kafkapy.source"].decode()
        for message in records(killed.broker.bootstrap_servers, f"{name}.dlq")
    }
    assert letters == {f"events-{partition}-{offset}" for partition, offset in expected.bad}


def test_each_row_has_what_it_was_joined_with(killed: KillRun, spark: SparkSession) -> None:
    rows = spark.read.format(JOINING).load(str(killed.tables / JOINING)).select("id", "name").collect()
    wanted = {row: None if row.id is None else JOINED.get(row.id % 10) for row in rows}
    assert {row for row, name in wanted.items() if row.name != name} == set()
    assert None in wanted.values()


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_an_upserted_table_has_the_last_record_of_each_key(
    name: str, killed: KillRun, spark: SparkSession
) -> None:
    expected = Expected.of(killed.broker.bootstrap_servers, "accounts")
    rows = spark.read.format(name).load(str(killed.tables / f"{name}-upsert"))
    found = rows.select("_key", PARTITION[name], "_offset", "id").collect()
    assert sorted((bytes(row[0]), ((row[1], row[2]), row[3])) for row in found) == sorted(
        expected.last.items()
    )


def test_sigterm_ends_the_command_after_its_batch(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, spark: SparkSession
) -> None:
    topic, count = make_topic(), 5_000
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(count):
        producer.produce(topic, f"value {number}")
    assert producer.flush(30) == 0
    file = tmp_path / "pipeline.yaml"
    definition = {"topic": topic, "bootstrap": bootstrap_servers, "table": "parquet:table"}
    file.write_text(yaml.safe_dump({**definition, "max_offsets_per_trigger": 100}))
    command = subprocess.Popen(
        [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file), "--master", "local[2]"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        state = State(tmp_path / "table")
        wait_until(lambda: state.progress is not None or command.poll() is not None, timeout=180)
        command.send_signal(signal.SIGTERM)
        printed, told = command.communicate(timeout=120)
    finally:
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGKILL)
            command.communicate()
    assert command.returncode == 0, told
    batches = len(list(tmp_path.glob("table/batch=*")))
    assert printed.startswith(f"{topic}: {batches * 100:,} rows in {batches:,} batches, 0 dead letters, ")
    assert printed.endswith("(stopped)\n")
    assert "Traceback" not in told
    assert "Exception" not in told
    assert told.splitlines()[1].startswith("batch 0: 100 rows in "), told
    loaded = PipelineDefinition.load(tmp_path / "table")
    state = State(loaded.table.location)
    assert checkpoint.committed_batch(state) == batches - 1
    # Where batches take longer than their interval, Spark has planned the next one before it can be stopped.
    assert checkpoint.planned_batch(state) in (batches - 1, batches)
    run(dataclasses.replace(loaded, max_offsets_per_trigger=count), once=True, spark=spark)
    rows = spark.read.parquet(loaded.table.location).select("_offset").collect()
    assert sorted(row[0] for row in rows) == list(range(count))
