"""Checkpoints that are damaged: the message names a command, and the command mends them.

Each test damages a checkpoint, runs, takes the command out of the message, carries it out and runs again. The
rows are compared with what was produced, not by the audit alone.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from interop.conftest import MakeTopic
from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.commands.cli import pipeline as commands
from kafkapy.pipeline.maintain import maintain
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PARTITIONS, BATCHES, SIZE = 2, 2, 10  # SIZE records of each partition in each batch
Damage = Callable[[Path], None]


def produce(bootstrap: str, topic: str, numbers: range, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        for partition in range(partitions):
            producer.produce(topic, f"{number}", f"key {partition} {number}", partition=partition)
    assert producer.flush(30) == 0


def written(path: Path, content: bytes) -> None:
    """As a power cut leaves a file: without the checksum that Hadoop keeps beside it."""
    path.write_bytes(content)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def gone(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def cut(path: Path) -> None:
    written(path, path.read_bytes()[:-7])


def empty(path: Path) -> None:
    written(path, b"")


def rotten(path: Path) -> None:
    """One digit differs: still JSON, but not what the checksum beside it is of."""
    path.write_bytes(re.sub(rb'"0":(\d)', rb'"0":9', path.read_bytes()))


LAST = BATCHES - 1
DAMAGES: dict[str, Damage] = {
    "offsets-empty": lambda folder: empty(folder / f"offsets/{LAST}"),
    "offsets-gone": lambda folder: gone(folder / f"offsets/{LAST}"),
    "offsets-cut": lambda folder: cut(folder / f"offsets/{LAST}"),
    "offsets-rotten": lambda folder: rotten(folder / f"offsets/{LAST}"),
    "offsets-all-gone": lambda folder: shutil.rmtree(folder / "offsets"),
    "earlier-offsets-empty": lambda folder: empty(folder / f"offsets/{LAST - 1}"),
    "earlier-offsets-gone": lambda folder: gone(folder / f"offsets/{LAST - 1}"),
    "commit-empty": lambda folder: empty(folder / f"commits/{LAST}"),
    "metadata-empty": lambda folder: empty(folder / "metadata"),
    "metadata-gone": lambda folder: gone(folder / "metadata"),
    "start-empty": lambda folder: empty(folder / "sources/0/0"),
    "start-gone": lambda folder: shutil.rmtree(folder / "sources"),
    "everything-gone": shutil.rmtree,
    "incarnation-empty": lambda folder: empty(folder.parents[1] / "incarnation.json"),
    "incarnation-gone": lambda folder: gone(folder.parents[1] / "incarnation.json"),
}


def temporary_files(folder: Path) -> None:
    """As a kill leaves them."""
    (folder / "offsets" / f".{BATCHES}.5f0c.tmp").write_text("v1\n{")
    (folder / "commits" / f".{BATCHES}.5f0c.tmp").touch()
    (folder / ".metadata.5f0c.tmp").touch()


HARMLESS: dict[str, Damage] = {
    "temporary-files": temporary_files,
    "commit-gone": lambda folder: gone(folder / f"commits/{LAST}"),
    "commits-gone": lambda folder: shutil.rmtree(folder / "commits"),
    "counts-empty": lambda folder: empty(folder.parents[1] / "progress.json"),
}


@pytest.fixture(scope="module")
def topic(bootstrap_servers: str) -> str:
    topics = Topics(bootstrap_servers)
    assert topics.create("damaged-checkpoints", partitions=PARTITIONS)
    return "damaged-checkpoints"


@pytest.fixture(scope="module")
def tables(
    topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, PipelineDefinition]:
    """Tables with some batches, and records in the topic that are not read yet."""
    folder = tmp_path_factory.mktemp("tables")
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers)
    made = {
        "parquet": pipeline.append().to_parquet(folder / "the parquet").definition,
        "delta": pipeline.append().to_delta(folder / "the delta").definition,
        "iceberg": pipeline.append().to_iceberg(folder / "the iceberg").definition,
        "upserts": pipeline.upsert().to_delta(folder / "the upserts").definition,
    }
    for batch in range(BATCHES):
        produce(bootstrap_servers, topic, range(batch * SIZE, (batch + 1) * SIZE))
        for definition in made.values():
            run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, range(BATCHES * SIZE, (BATCHES + 1) * SIZE))
    return made


@contextlib.contextmanager
def damaged(definition: PipelineDefinition, damage: Damage) -> Iterator[None]:
    """The damaged table; it is whole again at the end."""
    folder = Path(definition.table.location)
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    try:
        damage(Path(State(folder).checkpoint))
        yield
    finally:
        shutil.rmtree(folder)
        whole.rename(folder)


def mend(error: PipelineError) -> None:
    """Carries out the command that the message names."""
    assert "\n" not in str(error)
    command = re.search(r"kafkapy pipeline (reset (?:'[^']+'|\S+) --to (?:earliest|available))\b", str(error))
    assert command is not None, str(error)
    answer = CliRunner().invoke(commands, shlex.split(command[1]), input="y\n", catch_exceptions=False)
    assert answer.exit_code == 0, answer.output


def check_rows(definition: PipelineDefinition, spark: SparkSession) -> None:
    rows = open_table(spark, definition.table).read()
    found = sorted((row[0], int(row[1])) for row in rows.select("_partition", "value").collect())
    wanted = [(one, number) for one in range(PARTITIONS) for number in range((BATCHES + 1) * SIZE)]
    assert found == wanted
    assert audit(definition, spark).ok


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_command_of_the_message_mends_it(
    damage: str, tables: dict[str, PipelineDefinition], spark: SparkSession
) -> None:
    definition = tables["parquet"]
    with damaged(definition, DAMAGES[damage]):
        with pytest.raises(PipelineError) as refused:
            run(definition, once=True, spark=spark)
        mend(refused.value)
        run(definition, once=True, spark=spark)
        check_rows(definition, spark)


@pytest.mark.parametrize("damage", HARMLESS)
def test_what_a_kill_leaves_needs_no_command(
    damage: str, tables: dict[str, PipelineDefinition], spark: SparkSession
) -> None:
    definition = tables["parquet"]
    with damaged(definition, HARMLESS[damage]):
        run(definition, once=True, spark=spark)
        check_rows(definition, spark)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "upserts"])
def test_every_kind_of_table_is_mended(
    kind: str, tables: dict[str, PipelineDefinition], spark: SparkSession
) -> None:
    definition = tables[kind]
    with damaged(definition, DAMAGES["offsets-empty"]):
        with pytest.raises(PipelineError) as refused:
            run(definition, once=True, spark=spark)
        mend(refused.value)
        run(definition, once=True, spark=spark)
        check_rows(definition, spark)


def test_a_batch_that_was_planned_before_partitions_were_added_can_be_planned_again(
    bootstrap_servers: str, make_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark refuses it with AvailableNow (SPARK-53560)."""
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, range(SIZE), 1)
    definition = Pipeline(topic, bootstrap=bootstrap_servers).to_parquet(tmp_path / "table").definition
    run(definition, once=True, spark=spark)
    gone(Path(State(definition.table.location).checkpoint, "commits/0"))
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    produce(bootstrap_servers, topic, range(SIZE), 2)
    with pytest.raises(PipelineError, match=f"{topic} got the partition 1.*SPARK-53560") as refused:
        run(definition, once=True, spark=spark)
    mend(refused.value)
    run(definition, once=True, spark=spark)
    found = open_table(spark, definition.table).read().select("_partition", "_offset").collect()
    assert sorted(map(tuple, found)) == [(0, n) for n in range(2 * SIZE)] + [(1, n) for n in range(SIZE)]
    assert audit(definition, spark).ok


@pytest.mark.parametrize("kind", ["parquet", "upserts"])
@pytest.mark.parametrize("damage", [gone, empty])
def test_a_lost_position_is_told_by_all_that_need_it(
    kind: str, damage: Damage, tables: dict[str, PipelineDefinition], spark: SparkSession
) -> None:
    definition = tables[kind]
    with damaged(definition, lambda folder: damage(folder.parent.parent / "incarnation.json")):
        told = []
        for needs_it in (
            lambda: audit(definition, spark),
            lambda: maintain(definition, retain=timedelta(days=1), spark=spark),
            lambda: run(definition, once=True, spark=spark),
        ):
            with pytest.raises(PipelineError) as refused:
                needs_it()
            told.append(str(refused.value))
        assert len(set(told)) == 1
        mend(refused.value)
        run(definition, once=True, spark=spark)
        check_rows(definition, spark)


def test_a_damaged_file_of_tombstones_is_named_and_can_be_deleted(
    bootstrap_servers: str, make_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    definition = Pipeline(topic, bootstrap=bootstrap_servers).upsert().to_delta(tmp_path / "table").definition
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def write(key: str, value: str | None) -> None:
        producer.produce(topic, value, key)
        producer.flush(30)

    for key, value in (("a", "1"), ("b", "1"), ("a", None)):
        write(key, value)
    run(definition, once=True, spark=spark)
    (file,) = tmp_path.glob("table/_kafkapy/tombstones/part-*.parquet")
    cut(file)
    write("c", "1")
    for needs_it in (
        lambda: run(definition, once=True, spark=spark),
        lambda: maintain(definition, retain=timedelta(days=1), spark=spark),
    ):
        with pytest.raises(PipelineError, match=r"file of the tombstones.* is damaged; delete") as refused:
            needs_it()
    named = re.search(r"delete (.+) and start", str(refused.value))
    assert named is not None
    Path(named[1].removeprefix("file:")).unlink()
    run(definition, once=True, spark=spark)
    assert audit(definition, spark).ok
    assert sorted(row[0] for row in open_table(spark, definition.table).read().select("_key").collect()) == [
        b"b",
        b"c",
    ]
