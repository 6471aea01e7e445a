"""Tables as batches are written to them, in each format."""

from __future__ import annotations

import datetime
import json
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from click.testing import CliRunner

from kafkapy.pipeline.commands.maintain import maintain
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.tables.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkapy.pipeline.tables.table import Table

pytestmark = pytest.mark.slow
FORMATS = ("delta", "iceberg", "parquet")
RECORD = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY, "
    "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
NOON = datetime.datetime(2025, 1, 31, 12, tzinfo=datetime.UTC)
APP = "orders-1"


@pytest.fixture(params=FORMATS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> TableTarget:
    return TableTarget(format=request.param, location=str(tmp_path / "or ders.v1"))


@pytest.fixture(params=["delta", "iceberg"])
def upsert_target(request: pytest.FixtureRequest, tmp_path: Path) -> TableTarget:
    return TableTarget(format=request.param, location=str(tmp_path / "orders"))


def nth(number: int, app_id: str = APP) -> Batch:
    """The batch of that number, with one offset of partition 0."""
    return Batch(app_id, number, {0: (number, number + 1)})


def record(partition: int, offset: int, key: str = "k", time: datetime.datetime = NOON) -> tuple[Any, ...]:
    return ("orders", partition, offset, time, key.encode(), [("h", b"\x00")])


def data_frame(spark: SparkSession, columns: str, values: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Rows that no Python worker has to make."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(StructType.fromDDL(columns))
    listed = list(values)
    arrays = [pa.array([row[i] for row in listed], field.type) for i, field in enumerate(schema)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), columns)


def rows(spark: SparkSession, columns: str, values: Iterable[tuple[Any, ...]]) -> DataFrame:
    """`columns` of the data, then those of the record."""
    return data_frame(spark, f"{columns}, {RECORD}", values)


def numbered(spark: SparkSession, *places: tuple[int, int]) -> DataFrame:
    """Rows whose only column of data is 100 * partition + offset."""
    values = [(100 * partition + offset, *record(partition, offset)) for partition, offset in places]
    return rows(spark, "id BIGINT", values)


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.read().select("id").collect())


def files_below(folder: str | Path) -> list[Path]:
    return [path for path in Path(folder).rglob("*.parquet") if "_kafkapy" not in path.parts]


# -- exactly once


def test_a_batch_that_runs_again_is_there_once(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    assert not table.exists()
    for batch, places in enumerate([[(0, 0), (1, 0)], [], [(0, 1)]]):
        table.append(numbered(spark, *places), nth(batch))
        table.append(numbered(spark, *places), nth(batch))
    again = open_table(spark, target)
    again.append(numbered(spark, (0, 1)), nth(2))
    assert ids(again) == [0, 1, 100]
    again.append(numbered(spark, (0, 2)), nth(0, "orders-2"))
    assert ids(again) == [0, 1, 2, 100]


def test_a_batch_in_a_stream_is_written_once_and_in_few_files(
    spark: SparkSession, target: TableTarget, tmp_path: Path
) -> None:
    numbered(spark, *((0, offset) for offset in range(40))).repartition(8).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema)
    table = open_table(spark, target)

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            table.append(batch, nth(number))

    writer = source.option("maxFilesPerTrigger", "4").parquet(str(tmp_path / "in")).writeStream
    query = writer.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert ids(table) == list(range(40))
    made_with_table = 1  # Delta's, without rows
    assert len(files_below(target.location)) <= 2 * spark.sparkContext.defaultParallelism + made_with_table


def test_a_number_with_other_offsets_is_another_batch_and_refused(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    for number in range(3):
        table.append(numbered(spark, (0, number)), nth(number))
    longer = Batch(APP, 2, {0: (2, 4), 1: (0, 1)})
    where = "partition 0 is 2 to 3 here and 2 to 2 in the table, partition 1 is 0 to 0 here and nothing in"
    with pytest.raises(PipelineError, match=f"batch 2 is planned with other offsets .*{where} the table"):
        open_table(spark, target).append(numbered(spark, (0, 2), (0, 3), (1, 0)), longer)
    with pytest.raises(PipelineError, match="batch 1 is planned with other offsets"):
        table.append(numbered(spark, (0, 1), (0, 2)), Batch(APP, 1, {0: (1, 3)}))
    assert ids(table) == [0, 1, 2]
    for number in (1, 2, 3):
        table.append(numbered(spark, (0, number)), nth(number))
    assert ids(table) == [0, 1, 2, 3]


def test_a_batch_of_unknown_offsets_is_known_by_its_rows(spark: SparkSession, target: TableTarget) -> None:
    """Commits of a former version did not have them."""
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0), (1, 0)), Batch(APP, 0, None))
    table.append(numbered(spark, (0, 0), (1, 0)), Batch(APP, 0, {0: (0, 1), 1: (0, 1)}))
    with pytest.raises(PipelineError, match="the table has 2 of its 3 rows"):
        table.append(numbered(spark, (0, 0), (1, 0), (1, 1)), Batch(APP, 0, {0: (0, 1), 1: (0, 2)}))
    table.append(numbered(spark, (1, 1)), Batch(APP, 1, {1: (1, 2)}))
    assert ids(table) == [0, 100, 101]


def test_a_batch_that_delta_skips_for_another_driver_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits between this one's look at the table and its own commit."""
    target = TableTarget(format="delta", location=str(tmp_path / "orders"))
    first, second = open_table(spark, target), open_table(spark, target)
    first.append(numbered(spark, (0, 0)), nth(0))
    prepare = second._prepare

    def meanwhile(rows: DataFrame) -> DataFrame:
        first.append(numbered(spark, (0, 1)), nth(1))
        return prepare(rows)

    monkeypatch.setattr(second, "_prepare", meanwhile)
    with pytest.raises(PipelineError, match="batch 1 is planned with other offsets"):
        second.append(numbered(spark, (0, 1), (0, 2)), Batch(APP, 1, {0: (1, 3)}))
    monkeypatch.undo()
    # A former version, and whoever else uses the number, leaves no word of its offsets.
    writer = numbered(spark, (0, 2)).write.format("delta").mode("append").option("txnAppId", APP)
    writer.option("txnVersion", 2).save(target.location)
    second.append(numbered(spark, (0, 2)), nth(2))
    with pytest.raises(PipelineError, match="the table has 1 of its 2 rows"):
        second.append(numbered(spark, (0, 2), (0, 3)), Batch(APP, 2, {0: (2, 4)}))
    assert ids(second) == [0, 1, 2]


def test_readers_of_parquet_see_only_whole_batches(spark: SparkSession, tmp_path: Path) -> None:
    target = TableTarget(format="parquet", location=str(tmp_path / "orders"))
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0)), nth(0))
    # As a killed driver leaves it: part of the next batch, and a file without its end.
    staging = tmp_path / "orders" / "_kafkapy" / "staging" / "batch=00000001"
    numbered(spark, (0, 1)).write.parquet(str(staging))
    (staging / "_temporary").mkdir()
    (staging / "part-00000.parquet").write_bytes(b"")
    assert pyarrow.dataset.dataset(target.location, partitioning="hive").to_table()["id"].to_pylist() == [0]
    assert [row.id for row in spark.read.parquet(target.location).collect()] == [0]
    table.append(numbered(spark, (0, 1), (0, 2)), nth(1))
    assert not staging.exists()
    read = pyarrow.dataset.dataset(target.location, partitioning="hive").to_table()
    assert sorted(read["id"].to_pylist()) == [0, 1, 2]


def test_parquet_finishes_or_undoes_what_a_killed_trim_left(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    target = TableTarget(format="parquet", location=str(folder))
    open_table(spark, target).append(numbered(spark, (0, 0), (0, 1)), nth(0))
    replaced = folder / "_kafkapy" / "replaced" / "batch=00000000"
    replaced.parent.mkdir(parents=True)
    (folder / "batch=00000000").rename(replaced)  # killed before the new one came to its place
    table = open_table(spark, target)
    assert table.exists()
    table.trim({0: 1})
    assert ids(table) == [0]
    replaced.mkdir(parents=True)  # killed before the old one was deleted
    table.append(numbered(spark, (0, 1)), nth(0, "orders-2"))
    assert not replaced.exists()
    assert ids(table) == [0, 1]


# -- shape


def test_columns_are_added_and_older_rows_have_null(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    first = [(1, {"a": 1}, [{"x": 1}], *record(0, 0))]
    table.append(rows(spark, "id BIGINT, s STRUCT<a: INT>, many ARRAY<STRUCT<x: INT>>", first), nth(0))
    columns = "new STRING, id INT, S STRUCT<b: STRING, A: INT>, many ARRAY<STRUCT<y: INT, x: INT>>"
    second = [("n", 2, {"b": "b", "A": 2}, [{"y": 3, "x": 2}], *record(0, 1))]
    table.append(rows(spark, columns, second), nth(1))
    table.append(rows(spark, "nothing VOID", [(None, *record(0, 2))]), nth(2))
    read = table.read().orderBy("_offset")
    assert [row.id for row in read.collect()] == [1, 2, None]
    assert [row.new for row in read.collect()] == [None, "n", None]
    assert [row.s and row.s.asDict() for row in read.collect()] == [
        {"a": 1, "b": None},
        {"a": 2, "b": "b"},
        None,
    ]
    assert [row.many and row.many[0].asDict() for row in read.collect()] == [
        {"x": 1, "y": None},
        {"x": 2, "y": 3},
        None,
    ]
    assert "nothing" not in table.schema().names


def test_a_changed_type_writes_nothing(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0)), nth(0))
    with pytest.raises(PipelineError, match="the column id is BIGINT in the table and STRING in the topic"):
        table.append(rows(spark, "id STRING", [("x", *record(0, 1))]), nth(1))
    assert ids(table) == [0]


def test_names_that_a_format_cannot_have_are_refused(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    refused = {"delta": "first name", "iceberg": "_file", "parquet": "Batch"}[target.format]
    for columns in (f"`{refused}` INT, b INT", "id INT, ID INT", "x INT, _OFFSET INT"):
        batch = rows(spark, columns, [(1, 2, *record(0, 0))])
        with pytest.raises(PipelineError) as raised:
            table.append(batch, nth(0))
        assert "give the format a schema with" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert not table.exists()
    taken = {"delta": "we.ird-`ü", "iceberg": "a b.c;=", "parquet": "a b.c;="}[target.format]
    quoted = "`" + taken.replace("`", "``") + "`"
    table.append(rows(spark, f"{quoted} INT", [(7, *record(0, 0))]), nth(0))
    table.append(rows(spark, f"{quoted} INT, s STRUCT<`p.q`: INT>", [(8, (9,), *record(0, 1))]), nth(1))
    assert sorted(row[taken] for row in table.read().collect()) == [7, 8]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_of_another_shape_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "foreign")
    if kind == "delta":
        spark.range(3).write.format("delta").save(path)
    else:
        own = open_table(spark, TableTarget(format=kind, location=path))
        spark.range(3).writeTo(own._in_catalog(spark)).using("iceberg").create()  # type: ignore[attr-defined]
    table = open_table(spark, TableTarget(format=kind, location=path))
    with pytest.raises(PipelineError, match="this is not a pipeline's table, it lacks the column _topic"):
        table.check_shape()


def test_batches_that_no_pipeline_wrote_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "orders" / "batch=1"))
    table = open_table(spark, TableTarget(format="parquet", location=str(tmp_path / "orders")))
    with pytest.raises(PipelineError, match="batch=1 was not written by a pipeline"):
        table.check_shape()


# -- partitions


def test_partitions_are_of_utc_and_hide_in_the_rows(spark: SparkSession, target: TableTarget) -> None:
    by = ["day(timestamp)", "bucket(4, id)", "country"]
    table = open_table(spark, target, partition_by=by)
    late = datetime.datetime(2025, 1, 31, 23, 30, tzinfo=datetime.UTC)
    early = datetime.datetime(2025, 2, 1, 0, 30, tzinfo=datetime.UTC)
    values = [(1, "nl", *record(0, 0, time=late)), (2, "de", *record(0, 1, time=early))]
    values += [(3, None, *record(0, 2, time=datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC)))]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        table.check_shape(rows(spark, "id INT, country STRING", []).select("id", "country").schema)
        table.append(rows(spark, "id INT, country STRING", values), nth(0))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    table.append(rows(spark, "id INT, country STRING", [(4, "de", *record(0, 3))]), nth(1))
    table.check_shape()
    assert table.schema().names[:2] == ["id", "country"]
    assert sorted(table.read().columns) == sorted(table.schema().names)
    read = {row.id: row.country for row in table.read().collect()}
    assert read == {1: "nl", 2: "de", 3: None, 4: "de"}
    folders = {part for path in files_below(target.location) for part in path.parts if "_day=" in part}
    named = "_timestamp_day" if target.format == "iceberg" else "timestamp_day"
    assert folders == {f"{named}={day}" for day in ("2025-01-31", "2025-02-01", "1969-12-31")}
    with pytest.raises(PipelineError, match=r"the table is partitioned by .*, not by country; keep"):
        open_table(spark, target, partition_by=["country"]).check_shape()


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        (["region"], "the data has no column region; it has id, _topic"),
        (["day(id)"], "cannot be applied to the type of the column, bigint"),
    ],
)
def test_partitions_that_the_data_does_not_allow_are_refused(
    spark: SparkSession, target: TableTarget, by: list[str], problem: str
) -> None:
    table = open_table(spark, target, partition_by=by)
    with pytest.raises(PipelineError, match=problem):
        table.append(numbered(spark, (0, 0)), nth(0))
    assert not table.exists()


def test_parquet_is_not_divided_into_folders_that_readers_skip(spark: SparkSession, tmp_path: Path) -> None:
    target = TableTarget(format="parquet", location=str(tmp_path / "orders"))
    with pytest.raises(PipelineError, match="readers of Parquet skip folders like _partition="):
        open_table(spark, target, partition_by=["_partition"]).append(numbered(spark, (0, 0)), nth(0))


# -- going back


def test_a_trim_deletes_what_lies_at_and_after_a_position(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0), (1, 0), (2, 0)), nth(0))
    table.append(numbered(spark, (0, 1), (1, 1), (2, 1)), nth(1))
    table.append(numbered(spark, (0, 2)), nth(2))
    table.trim({})
    table.trim({0: 1, 1: 0})
    table.trim({0: 1, 1: 0})
    assert ids(table) == [0, 200, 201]
    table.append(numbered(spark, (0, 1), (1, 0)), nth(0, "orders-2"))
    assert ids(table) == [0, 1, 100, 200, 201]


# -- upserts, beside a slow twin


class Model:
    """One record after the other into a dict."""

    def __init__(self, by_columns: bool) -> None:
        self._by_columns = by_columns
        self.rows: dict[Any, tuple[Any, ...]] = {}

    def apply(self, row: tuple[Any, ...]) -> None:
        identity, text, _, partition, offset, _, key, _, deleted = row
        if deleted and self._by_columns:
            for name in [name for name, one in self.rows.items() if one[4] == key]:
                del self.rows[name]
        elif deleted:
            self.rows.pop(key, None)
        else:
            name = identity if self._by_columns else key
            self.rows[name] = (identity, text, partition, offset, key)


@pytest.mark.parametrize("keys", [(), ("Id",)], ids=["record-key", "columns"])
def test_an_upsert_equals_one_record_after_the_other(
    spark: SparkSession, upsert_target: TableTarget, keys: tuple[str, ...]
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    table = open_table(spark, upsert_target, partition_by=["bucket(2, _key)"])
    model = Model(bool(keys))
    offsets = [0, 0]
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    for number in range(4):
        batch = []
        for _ in range(dice.choice([6, 40])):
            key = dice.randrange(12)
            partition = key % 2
            # Some records have the columns of another key of their partition.
            identity = key if dice.random() < 0.7 else dice.randrange(6) * 2 + partition
            deleted = number > 0 and dice.random() < 0.25
            data = (None, None) if deleted else (identity, f"{number}-{dice.random()}")
            batch.append((*data, *record(partition, offsets[partition], f"k{key}"), deleted))
            offsets[partition] += 1
        for row in batch:
            model.apply(row)
        dice.shuffle(batch)
        for _ in range(dice.choice([1, 2])):
            table.upsert(data_frame(spark, columns, batch), keys)
        found = table.read().select("id", "text", "_partition", "_offset", "_key").collect()
        assert sorted(map(tuple, found)) == sorted(
            (identity, text, partition, offset, bytearray(key))
            for identity, text, partition, offset, key in model.rows.values()
        )


def test_an_older_record_changes_nothing(spark: SparkSession, upsert_target: TableTarget) -> None:
    table = open_table(spark, upsert_target)
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"

    def upsert(*values: tuple[Any, ...]) -> dict[bytes, str]:
        table.upsert(data_frame(spark, columns, values), ())
        return {bytes(row._key): row.text for row in table.read().collect()}

    later = NOON + datetime.timedelta(seconds=1)
    assert upsert(("x5", *record(0, 5, "x"), False), ("y5", *record(0, 6, "y", later), False)) == {
        b"x": "x5",
        b"y": "y5",
    }
    # Of the same partition the offset counts, whatever the timestamps say; also for tombstones.
    assert upsert(("x3", *record(0, 3, "x", later), False), (None, *record(0, 4, "y", later), True)) == {
        b"x": "x5",
        b"y": "y5",
    }
    # The key moved to another partition: the timestamp counts, then the partition. An absent key is no harm.
    moved = upsert(
        ("x0", *record(1, 0, "x"), False),
        ("y1", *record(1, 1, "y"), False),
        (None, *record(1, 2, "z"), True),
    )
    assert moved == {b"x": "x0", b"y": "y5"}


def test_an_upsert_by_columns_that_are_missing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = open_table(spark, TableTarget(format="delta", location=str(tmp_path / "orders")))
    batch = data_frame(spark, f"id INT, {RECORD}, _deleted BOOLEAN", [(1, *record(0, 0), False)])
    with pytest.raises(PipelineError, match="key: the data has no column uid; it has id, _topic"):
        table.upsert(batch, ("uid",))


def test_parquet_refuses_to_upsert_and_says_what_can(spark: SparkSession, tmp_path: Path) -> None:
    table = open_table(spark, TableTarget(format="parquet", location=str(tmp_path / "orders")))
    with pytest.raises(
        PipelineError, match="write delta:PATH or iceberg:PATH, or append every record with mode"
    ):
        table.upsert(numbered(spark, (0, 0)), ())


# -- maintenance


def test_maintenance_merges_small_files_and_leaves_the_memory_of_the_pipeline(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    for number in range(6):
        table.append(numbered(spark, (0, number)), nth(number))
    folder = Path(target.location)
    before = len(files_below(folder))
    memory = folder / "_kafkapy" / "checkpoint" / "offsets" / "0"
    memory.parent.mkdir(parents=True)
    memory.write_text(json.dumps({"orders": {"0": 6}}))
    orphan = folder / ("data" if target.format == "iceberg" else "") / "orphan.parquet"
    if target.format != "parquet":
        orphan.write_bytes(b"PAR1")
    old = time.time() - 30 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (old, old))
    (merging, *others) = table.maintain(datetime.timedelta(seconds=1))
    assert memory.exists()
    assert not orphan.exists()
    assert ids(table) == list(range(6))
    if target.format == "parquet":
        assert "kept 6 batches as they are" in others[0]
        return
    assert merging.startswith("merged 6 files into 1 ")
    assert before >= 6
    assert table.maintain(datetime.timedelta(seconds=1))[0].startswith("merged 0 files into 0 ")
    open_table(spark, target).append(numbered(spark, (0, 5)), nth(5))  # the last batch is still known
    open_table(spark, target).append(numbered(spark, (0, 6)), nth(6))
    assert ids(table) == list(range(7))


def test_a_batch_is_known_though_others_let_its_snapshot_expire(spark: SparkSession, tmp_path: Path) -> None:
    """A nightly compaction lets snapshots expire.

    It does so while the driver is down, which was killed before Spark's commit.
    """
    target = TableTarget(format="iceberg", location=str(tmp_path / "orders"))
    for number in range(2):
        open_table(spark, target).append(numbered(spark, (0, number), (1, number)), nth(number))
    catalog = "others"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(tmp_path))
    for procedure in (
        "rewrite_data_files(table => 'orders', options => map('rewrite-all', 'true'))",
        "expire_snapshots(table => 'orders', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
    ):
        spark.sql(f"CALL {catalog}.system.{procedure}").collect()
    for number in (1, 2, 2):
        open_table(spark, target).append(numbered(spark, (0, number), (1, number)), nth(number))
    assert ids(open_table(spark, target)) == [0, 1, 2, 100, 101, 102]


def test_the_command_says_what_it_did(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "orders")
    open_table(spark, TableTarget(format="iceberg", location=location)).append(
        numbered(spark, (0, 0)), nth(0)
    )
    assert spark.read.format("iceberg").load(location).count() == 1  # as other readers find it
    State(location).begin()
    (tmp_path / "orders.yaml").write_text(f"topic: orders\ntable: iceberg:{location}\n")
    result = CliRunner().invoke(maintain, [str(tmp_path / "orders.yaml"), "--retain", "36h"])
    assert result.exception is None
    assert result.output.splitlines() == [
        "merged 0 files into 0 (rewrite_data_files)",
        "deleted 0 files that no snapshot of the last 36 hours needs (expire_snapshots)",
        "deleted 0 files that no snapshot contains (remove_orphan_files)",
    ]
