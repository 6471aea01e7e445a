"""Upserts into tables, compared with one record after the other."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.spark.other_readers import merged_rows
from interop.spark.table_batches import (
    NOON,
    RECORD,
    data_frame,
    ids,
    nth,
    numbered,
    record,
)
from kafkapy.pipeline.java_classes import java_class
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores import HadoopFiles
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table, tombstones, upserts
from kafkapy.pipeline.tables.delta_version import FILE, POSITION, DeltaVersion
from kafkapy.pipeline.tables.few_records import KeyNotes, Record
from kafkapy.pipeline.tables.sql import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkapy.pipeline.tables import Table

pytestmark = pytest.mark.slow


@pytest.fixture(params=[("delta", None), ("delta", "merge-on-read"), ("iceberg", None)], ids=str)
def opened(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Callable[..., Table]:
    """Opens a new table that can be upserted into."""
    kind, mode = request.param

    def of(**how: Any) -> Table:
        table = open_table(spark, TableTarget(format=kind, location=str(tmp_path / "orders")), **how)
        table.set_merge_mode(mode)
        return table

    return of


def marked_delta(spark: SparkSession, folder: Path) -> Table:
    table = open_table(spark, TableTarget(format="delta", location=str(folder / "orders")))
    table.set_merge_mode("merge-on-read")
    return table


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
    spark: SparkSession, opened: Callable[..., Table], keys: tuple[str, ...]
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    table = opened(partition_by=["bucket(2, _key)"])
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
            table.upsert(data_frame(spark, columns, batch), keys, dice.choice([None, len(batch)]))
        found = table.read().select("id", "text", "_partition", "_offset", "_key").collect()
        assert sorted(map(tuple, found)) == sorted(
            (identity, text, partition, offset, bytearray(key))
            for identity, text, partition, offset, key in model.rows.values()
        )


KEYS: dict[str, list[Any]] = {
    "BINARY": [b"", b"\x00", b"'\\", bytes(201), None],
    "STRING": ["", "it's", "a\\b\n", "\u00e6\U0001f600", "x" * 201],
    "BIGINT": [0, -1, 2**63 - 1, -(2**63)],
    "INT": [-(2**31), 7],
    "DATE": [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)],
    "TIMESTAMP": [NOON],
    "DOUBLE": [float("nan"), 0.0],
}


def noted(rows: DataFrame, keys: Sequence[str]) -> tuple[str, list[tuple[Any, ...]]] | None:
    """The condition for the keys of these rows, and their notes; None if they have none."""
    if (notes := KeyNotes.of(rows, keys)) is None:
        return None
    found = [tuple(row) for row in rows.select(*notes.columns()).collect()]
    return notes.among([Record(key, None, 0, 0, 0) for key in found]), found


def test_the_keys_of_a_small_batch_are_named_exactly_or_not_at_all(spark: SparkSession) -> None:
    for kind, values in KEYS.items():
        stored = data_frame(spark, f"`a b` {kind}", [(value,) for value in values]).alias("t")
        for value in values:
            told = noted(data_frame(spark, f"`a b` {kind}", [(value,)]), ["a b"])
            if kind in ("TIMESTAMP", "DOUBLE"):
                assert told is None, (kind, value)
                continue
            assert told is not None, (kind, value)
            condition, [(note,)] = told
            if value is None:
                assert note is None
            elif isinstance(value, (bytes, str)) and len(value) > 200:
                assert note == "too long"
            else:
                assert [row[0] for row in stored.where(condition).collect()] == [value]
    several = data_frame(spark, "x INT, y STRING", [(1, "a"), (2, "b")])
    told = noted(several, ["x", "y"])
    assert told is not None
    assert several.where(told[0]).count() == 2


def test_a_small_merge_of_iceberg_names_its_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(spark, TableTarget(format="iceberg", location=str(tmp_path / "orders")))
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    many = [(f"{number}", *record(0, number, f"k{number}"), False) for number in range(2_000)]
    table.upsert(data_frame(spark, columns, many), ())
    statements: list[str] = []
    sql = type(spark).sql

    def noted(session: SparkSession, text: str) -> Any:
        statements.append(text)
        return sql(session, text)

    monkeypatch.setattr(type(spark), "sql", noted)
    batch = [("new", *record(0, 2_000, "k5"), False), (None, *record(0, 2_001, "k6"), True)]
    table.upsert(data_frame(spark, columns, batch), (), len(batch))
    (merge,) = [one for one in statements if one.startswith("MERGE")]
    assert "AND t.`_key` IN (X'6B35', X'6B36') WHEN" in merge
    found = {row._key.decode(): row.text for row in table.read().collect()}
    assert found == {f"k{n}": f"{n}" for n in range(2_000) if n != 6} | {"k5": "new"}


@pytest.mark.parametrize(("kind", "key"), [("STRING", "a"), ("TIMESTAMP", NOON)], ids=["noted", "not noted"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_that_may_shuffle_the_whole_table_has_the_settings_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, key: Any, mode: str
) -> None:
    table = open_table(spark, TableTarget(format="delta", location=str(tmp_path / "orders")))
    table.set_merge_mode(mode)
    seen: list[str] = []
    sql = type(spark).sql

    def noted(session: SparkSession, text: str) -> Any:
        if text.startswith("MERGE"):
            seen.append(str(session.conf.get("spark.sql.shuffle.partitions")))
        return sql(session, text)

    monkeypatch.setattr(type(spark), "sql", noted)
    columns = f"id {kind}, {RECORD}, _deleted BOOLEAN"
    batch = [(key, *record(0, 0, "a"), False), (None, *record(0, 1, "b"), True)]
    with settings(spark, {"spark.sql.shuffle.partitions": "3"}):
        table.upsert(data_frame(spark, columns, batch), ("id",), len(batch))
    without_merge = (kind, mode) == ("STRING", "merge-on-read")
    assert seen == ([] if without_merge else ["3", "3"])
    assert table.read().count() == 1


@pytest.mark.parametrize("joined", [False, True], ids=["plain", "joined"])
def test_a_small_batch_is_joined_with_the_settings_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """The table that it is joined with may have many rows."""
    seen: list[str] = []
    stored = upserts.stored

    def noted(rows: DataFrame) -> Any:
        seen.append(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        return stored(rows)

    monkeypatch.setattr(upserts, "stored", noted)
    batch = data_frame(spark, f"id INT, {RECORD}, _deleted BOOLEAN", [(1, *record(0, 0, "a"), False)])
    if joined:
        customers = data_frame(spark, "id INT, name STRING", [(1, "Ann"), (2, "Bob")])
        batch = batch.join(customers, "id", "left").select("name", *batch.columns)
    with settings(spark, {"spark.sql.shuffle.partitions": "3"}):
        marked_delta(spark, tmp_path).upsert(batch, ("id",), 1)
    assert seen == ["3" if joined else "1"]


def test_a_small_upsert_of_a_marked_delta_table_takes_four_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """To read, to look at the keys, to find the rows, to write: none is for Delta's log."""
    table = marked_delta(spark, tmp_path)
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    for first in (0, 1_000):
        many = [(f"{number}", *record(0, first + number, f"k{number}"), False) for number in range(1_000)]
        table.upsert(data_frame(spark, columns, many), ())
    batch = [("new", *record(0, 2_000, "k5"), False), (None, *record(0, 2_001, "k6"), True)]
    table.upsert(data_frame(spark, columns, batch[:1]), (), 1)  # the first one reads the log
    context = spark.sparkContext
    context.setJobGroup("small", "")
    try:
        table.upsert(data_frame(spark, columns, batch), (), len(batch))
    finally:
        context._jsc.sc().clearJobGroup()
    assert len(context.statusTracker().getJobIdsForGroup("small")) <= 4
    found = {row._key.decode(): row.text for row in table.read().collect()}
    assert found == {f"k{n}": f"{n}" for n in range(1_000) if n != 6} | {"k5": "new"}


def test_small_upserts_of_a_marked_delta_table_compile_the_code_of_its_scan_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """New code is interpreted at first, for millions of rows."""
    table = marked_delta(spark, tmp_path)
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    compilations = java_class(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    compiling = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}
    counts = []
    with settings(spark, compiling):
        for first in (0, 20, 40, 60):
            batch = [(f"{first}", *record(0, first + number, f"k{number}"), False) for number in range(20)]
            table.upsert(data_frame(spark, columns, batch), (), len(batch))
            counts.append(compilations.METRIC_COMPILATION_TIME().getCount())
    assert counts[0] < counts[-2] == counts[-1]
    assert {row.text for row in table.read().collect()} == {"60"}


def test_a_small_upsert_marks_the_right_rows_of_a_file_whose_other_pages_are_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In a file in the order of keys, a few pages have all of a batch's."""
    table = marked_delta(spark, tmp_path)
    many = [(f"{number}", *record(0, number, f"k{number:04}")) for number in range(4_000)]
    with settings(spark, {"parquet.page.row.count.limit": "100"}):
        table.append(data_frame(spark, f"text STRING, {RECORD}", many), nth(0))
    model = {f"k{number:04}": f"{number}" for number in range(4_000)}
    for first in (0, 50, 51):
        keys = [f"k{number:04}" for number in range(first, 4_000, 250)]
        places = enumerate(keys, 4_000 + 100 * first)
        batch = [(f"new {first}", *record(0, offset, key), False) for offset, key in places]
        table.upsert(data_frame(spark, f"text STRING, {RECORD}, _deleted BOOLEAN", batch), (), len(batch))
        model |= dict.fromkeys(keys, f"new {first}")
    assert sorted((row._key.decode(), row.text) for row in table.read().collect()) == sorted(model.items())


@pytest.mark.parametrize("maintained", [False, True])
def test_a_marked_delta_table_has_small_pages_in_the_order_of_keys(
    spark: SparkSession, tmp_path: Path, maintained: bool
) -> None:
    """One key of a large batch is found without reading all others."""
    table, rows = marked_delta(spark, tmp_path), 10_000
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    numbers = [(7 * number) % rows for number in range(rows)]
    batch = [(one, "old", *record(0, place, f"k{one}"), False) for place, one in enumerate(numbers)]
    table.upsert(data_frame(spark, columns, batch), ("id",))
    expected = dict.fromkeys(range(rows), "old")
    if maintained:
        table.upsert(data_frame(spark, columns, [(3, "new", *record(0, rows, "k3"), False)]), ("id",), 1)
        expected[3] = "new"
        table.maintain(datetime.timedelta(days=7))
    found = DeltaVersion(spark, table.location).read().where("id = 5000").select("id")
    assert [row.id for row in found.collect()] == [5000]
    scan = found._jdf.queryExecution().executedPlan().collectLeaves().head()
    # The changed row is in no order: the range of its page is wide.
    assert scan.metrics().apply("numOutputRows").value() <= (4_000 if maintained else 2_000)
    target = TableTarget(format="delta", location=str(tmp_path / "orders"))
    for reader, content in merged_rows(target):
        assert content == expected, reader


@pytest.mark.parametrize("in_checksum", ["true", "false"])
def test_marks_of_several_small_upserts_are_in_one_delta_table(
    spark: SparkSession, tmp_path: Path, in_checksum: str
) -> None:
    """Nothing is left of a file whose rows are all replaced; others keep their marks."""
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    model: dict[str, str] = {}
    with settings(spark, {"spark.databricks.delta.allFilesInCrc.enabled": in_checksum}):
        table = marked_delta(spark, tmp_path)
        for number, keys in enumerate(("abcdef", "ab", "bc", "ab", "def")):
            batch = [
                (f"{number}", *record(0, 10 * number + place, key), False) for place, key in enumerate(keys)
            ]
            table.upsert(data_frame(spark, columns, batch), (), len(batch))
            model |= dict.fromkeys(keys, f"{number}")
    assert {row._key.decode(): row.text for row in table.read().collect()} == model
    files = spark.sql(f"DESCRIBE DETAIL delta.`{table.location}`").head().numFiles
    assert files == 3  # of the batches that wrote c, ab and def: no row of the others counts
    listed = DeltaVersion(spark, table.location).files()
    assert isinstance(listed, list) == (in_checksum == "true")
    assert len(listed if isinstance(listed, list) else listed.collect()) == 3


@pytest.mark.parametrize("known", ["true", "false"])
def test_what_is_too_much_for_the_driver_or_not_counted_is_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """One tombstone deletes any number of rows; several key columns have many combinations."""
    monkeypatch.setattr(upserts, "_MOST_ROWS", 20 if known == "true" else 1_000)
    table = marked_delta(spark, tmp_path)
    columns = f"x INT, y INT, text STRING, {RECORD}, _deleted BOOLEAN"
    model = {(x, y): "old" for x in range(6) for y in range(6)}
    many = [(*key, "old", *record(0, number, f"k{key[0]}"), False) for number, key in enumerate(model)]
    with settings(spark, {"spark.databricks.delta.stats.collect": known}):
        table.upsert(data_frame(spark, columns, many), ("x", "y"))
    new = {(number, number): "new" for number in range(6)}
    batch = [(*key, "new", *record(0, 100 + key[0], f"k{key[0]}"), False) for key in new]
    batch.append((None, None, None, *record(0, 200, "k5"), True))
    for _ in range(2):
        table.upsert(data_frame(spark, columns, batch), ("x", "y"), len(batch))
        found = {(row.x, row.y): row.text for row in table.read().collect()}
        assert found == {key: text for key, text in (model | new).items() if key[0] != 5}
    assert spark.sql(f"DESCRIBE HISTORY delta.`{table.location}` LIMIT 1").head().operation == "MERGE"


def test_a_small_upsert_gives_way_to_a_commit_of_somebody_else(spark: SparkSession, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    table = marked_delta(spark, tmp_path)
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    table.upsert(data_frame(spark, columns, [("a", *record(0, 0, "a"), False)]), (), 1)
    rows = DeltaVersion(spark, table.location)
    (found,) = rows.read().select(FILE, POSITION).collect()
    table.upsert(data_frame(spark, columns, [("b", *record(0, 1, "b"), False)]), (), 1)
    with pytest.raises(Py4JJavaError, match="Concurrent"):
        rows.replace({found[0]: [found[1]]}, None)
    assert {row.text for row in table.read().collect()} == {"a", "b"}


def test_rows_that_somebody_else_has_written_without_a_place_are_never_outdated(
    spark: SparkSession, opened: Callable[..., Table]
) -> None:
    """Only where they can be compared: by the timestamp, if no partition is known."""
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    table = opened()
    table.upsert(data_frame(spark, columns, [(0, "old", *record(0, 0, "k0"), False)]), ("id",), 1)
    earlier = NOON - datetime.timedelta(seconds=1)
    places = [(None, None, None), (0, None, None), (None, None, earlier), (None, None, NOON), (1, None, NOON)]
    strange = [
        (number, "old", "orders", *place, f"k{number}".encode(), None)
        for number, place in enumerate(places, 1)
    ]
    stored = data_frame(spark, f"id BIGINT, text STRING, {RECORD}", strange)
    if table.format == "delta":
        stored.write.format("delta").mode("append").save(table.location)
    else:
        renamed = stored.withColumnRenamed("_partition", "_kafka_partition")
        renamed.write.format("iceberg").mode("append").save(table.location)
    new = [(number, "new", *record(0, 10 + number, f"k{number}"), False) for number in range(6)]
    for records in (6, None):
        table.upsert(data_frame(spark, columns, new), ("id",), records)
        found = sorted((row.id, row.text) for row in table.read().collect())
        assert found == [(number, "new" if number in (0, 3) else "old") for number in range(6)]


def test_an_older_record_changes_nothing(spark: SparkSession, opened: Callable[..., Table]) -> None:
    table = opened()
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
    assert upsert(("x0", *record(1, 0, "x"), False), (None, *record(1, 2, "z"), True)) == moved


@pytest.mark.parametrize("keys", [(), ("Id",)], ids=["record-key", "columns"])
def test_the_later_record_of_a_key_in_several_partitions_wins_in_any_order(
    spark: SparkSession, opened: Callable[..., Table], keys: tuple[str, ...]
) -> None:
    """Each batch is read from the partitions at random, and some batches are read again."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    partitions: list[list[tuple[Any, ...]]] = []
    for partition in range(3):
        records = []
        for offset in range(12):
            key, time = dice.randrange(5), NOON + datetime.timedelta(seconds=offset + dice.random())
            deleted = dice.random() < 0.4
            data = (None, None) if deleted else (key, f"{partition}-{offset}")
            records.append((*data, *record(partition, offset, f"k{key}", time), deleted))
        partitions.append(records)
    expected = {}
    for row in sorted((row for records in partitions for row in records), key=lambda row: row[5]):
        expected[row[6]] = None if row[-1] else row[1]
    table = opened()
    read = [0, 0, 0]
    while any(at < len(records) for at, records in zip(read, partitions, strict=True)):
        before = list(read)
        for partition in range(3):
            read[partition] = min(read[partition] + dice.choice([0, 0, 4, 8]), 12)
        batch = [row for at, end, rows in zip(before, read, partitions, strict=True) for row in rows[at:end]]
        for _ in range(dice.choice([1, 2])):
            if batch:
                table.upsert(data_frame(spark, columns, batch), keys, dice.choice([None, len(batch)]))
    found = {bytes(row._key): row.text for row in table.read().select("_key", "text").collect()}
    assert found == {key: text for key, text in expected.items() if text is not None}


def last_in_any_order(history: Sequence[tuple[int, int, bool]]) -> int | None:
    """The number of the record that a key has at the end; None if it is deleted.

    `history` has (partition, time, deleted) of each record. None is older than one before it in its
    partition.
    """
    place, time = -1, (-1, -1)
    latest: dict[int, int] = {}
    for number, (partition, own, _) in enumerate(history):
        latest[partition] = max(own, latest.get(partition, own))
        if (latest[partition], partition) >= time:
            place, time = number, (latest[partition], partition)
    return None if history[place][-1] else place


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
@pytest.mark.parametrize("keys", [(), ("id",)], ids=["record-key", "columns"])
def test_timestamps_that_go_back_leave_the_last_record_of_several_partitions_in_any_order(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    mode: str,
    few: bool,
    keys: tuple[str, ...],
) -> None:
    """Each key has a history of its own, and an order in which batches read its partitions.

    By columns, deletions have them, as those of change streams.
    """
    monkeypatch.setattr(tombstones, "_MANY_FILES", 2)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    count, rounds = 300, 4
    offsets = itertools.count()
    batches: list[list[tuple[Any, ...]]] = [[] for _ in range(rounds)]
    expected = {}
    for identity in range(count):
        partitions = [0] * 2 + [1] * 2 if dice.random() < 0.7 else [0, 1, 1, 2]
        history = [(partition, dice.randrange(4), dice.random() < 0.4) for partition in partitions]
        rounds_of = {
            one: sorted(dice.choices(range(rounds), k=partitions.count(one))) for one in {*partitions}
        }
        for number, (partition, seconds, deleted) in enumerate(history):
            data = (identity if keys or not deleted else None, None if deleted else f"{number}")
            time = NOON + datetime.timedelta(seconds=seconds)
            row = (*data, *record(partition, next(offsets), f"k{identity}", time), deleted)
            batches[rounds_of[partition].pop(0)].append(row)
        expected[identity] = history, last_in_any_order(history)
    table = open_table(spark, TableTarget(format=kind, location=str(tmp_path / "orders")))
    table.set_merge_mode(mode)
    for batch in (*batches, dice.choice(batches)):  # one is read again
        dice.shuffle(batch)
        table.upsert(data_frame(spark, columns, batch), keys, len(batch) if few else None)
    found = {row.id: int(row.text) for row in table.read().select("id", "text").collect()}
    wrong = [(one, found.get(key)) for key, one in expected.items() if one[1] != found.get(key)]
    assert not wrong, (len(wrong), wrong[:5])


def test_a_tombstone_is_not_undone_by_an_older_record_of_another_partition(
    spark: SparkSession, opened: Callable[..., Table]
) -> None:
    table = opened()
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    later = NOON + datetime.timedelta(seconds=1)
    table.upsert(data_frame(spark, columns, [(None, *record(1, 0, "x", later), True)]), ())
    table.upsert(data_frame(spark, columns, [("old", *record(0, 0, "x"), False)]), ())
    assert table.read().collect() == []
    table.maintain(datetime.timedelta(days=7))
    table.upsert(data_frame(spark, columns, [("old", *record(0, 1, "x"), False)]), ())
    assert table.read().collect() == []
    table.upsert(
        data_frame(spark, columns, [("new", *record(0, 2, "x", later + later.resolution), False)]), ()
    )
    assert [row.text for row in table.read().collect()] == ["new"]


def test_by_columns_each_tombstone_of_a_batch_counts_in_its_partition(
    spark: SparkSession, opened: Callable[..., Table]
) -> None:
    """Of two tombstones of a key, the later one need not be the one that deletes the row."""
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    table = opened()
    earlier = NOON - datetime.timedelta(seconds=1)
    for number, count in enumerate((2, None)):
        first = 10 * number
        rows = [(first + at, "new", *record(0, first + at, f"k{first + at}"), False) for at in range(2)]
        table.upsert(data_frame(spark, columns, rows), ("id",), count)
        long_before = earlier - datetime.timedelta(seconds=1)
        dead = [
            (None, None, *record(0, first + 2, f"k{first}", long_before), True),
            (None, None, *record(1, first, f"k{first}", earlier), True),
        ]
        table.upsert(data_frame(spark, columns, dead), ("id",), count)
    assert ids(table) == [1, 11]


def test_an_upsert_by_columns_puts_tombstones_together_after_it_has_read_them(
    spark: SparkSession, opened: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tombstones, "_MANY_FILES", 1)
    table = opened()
    columns = f"id INT, {RECORD}, _deleted BOOLEAN"
    for offset in (0, 2, 4):
        dead, alive = (None, *record(0, offset, "x"), True), (offset, *record(0, offset + 1, "y"), False)
        table.upsert(data_frame(spark, columns, [dead, alive]), ("id",))
    assert ids(table) == [0, 2, 4]
    assert len(list(Path(table.location, "_kafkapy/tombstones").glob("*.parquet"))) == 2


def test_many_tombstones_are_not_written_again_for_a_few(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tombstones, "_MANY_FILES", 2)
    table = open_table(spark, TableTarget(format="delta", location=str(tmp_path / "orders")))
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"

    def files() -> set[str]:
        return {path.name for path in Path(table.location, "_kafkapy/tombstones").glob("*.parquet")}

    later = NOON + datetime.timedelta(seconds=1)
    many = [(None, *record(1, offset, f"k{offset}", later), True) for offset in range(4_000)]
    table.upsert(data_frame(spark, columns, many), ())
    (large,) = files()
    assert Path(table.location, "_kafkapy/tombstones", large).stat().st_size > tombstones._TIERS[0]
    for offset in range(4_000, 4_004):
        table.upsert(data_frame(spark, columns, [(None, *record(1, offset, "x", later), True)]), (), 1)
        assert large in files()
    assert len(files()) <= 3
    old = [(key, *record(0, offset, key), False) for offset, key in enumerate(("k7", "x", "new"))]
    table.upsert(data_frame(spark, columns, old), (), len(old))
    assert [row.text for row in table.read().collect()] == ["new"]


def test_tombstones_put_together_have_the_largest_offset_and_the_latest_timestamp(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = tombstones.Tombstones(HadoopFiles(str(tmp_path)))
    later = NOON + datetime.timedelta(seconds=1)
    for partition, offset, time in ((0, 5, later), (0, 6, NOON), (1, 7, NOON)):
        rows = data_frame(spark, RECORD, [record(partition, offset, "k", time)])
        kept.add(rows, "_partition", {partition: tombstones.Place(offset, 0)})
    kept._merge(spark, [path.name for path in tmp_path.rglob("part-*.parquet")])
    found = spark.read.parquet(f"{tmp_path}/_kafkapy/tombstones/part-*").orderBy("partition")
    seconds = "timestampdiff(SECOND, timestamp '2025-01-31 12:00:00 UTC', timestamp) AS seconds"
    places = found.selectExpr("partition", "offset", seconds).collect()
    assert [tuple(row) for row in places] == [(0, 6, 1), (1, 7, 0)]


def test_tombstones_are_forgotten_with_their_file_or_out_of_it(spark: SparkSession, tmp_path: Path) -> None:
    kept = tombstones.Tombstones(HadoopFiles(str(tmp_path)))
    times: list[datetime.datetime] = []
    names: list[str] = []
    for number in range(3):
        rows = data_frame(spark, RECORD, [record(0, number, f"k{number}")])
        kept.add(rows, "_partition", {0: tombstones.Place(number, 0)})
        names.append(({path.name for path in tmp_path.rglob("part-*.parquet")} - set(names)).pop())
        times.append(datetime.datetime.now(datetime.UTC))
    kept.drop(spark, times[0])
    assert {path.name for path in tmp_path.rglob("part-*.parquet")} == set(names[1:])
    kept._merge(spark, names[1:])
    kept.drop(spark, times[1])
    found = spark.read.parquet(f"{tmp_path}/_kafkapy/tombstones/part-*")
    assert [bytes(row._key) for row in found.collect()] == [b"k2"]
    kept.drop(spark, times[2])
    assert not list(tmp_path.rglob("part-*.parquet"))


def test_a_row_at_the_offset_of_another_one_stays(spark: SparkSession, opened: Callable[..., Table]) -> None:
    """In a topic that was recreated, offsets begin anew."""
    table = opened()
    columns = f"text STRING, {RECORD}, _deleted BOOLEAN"
    later = NOON + datetime.timedelta(seconds=1)
    for row in (("x", *record(0, 5, "x")), ("y", *record(0, 5, "y", later)), ("new", *record(0, 6, "x"))):
        table.upsert(data_frame(spark, columns, [(*row, False)]), ())
    assert sorted(row.text for row in table.read().collect()) == ["new", "y"]


@pytest.mark.parametrize("keys", [(), ("identity",)], ids=["record-key", "columns"])
def test_columns_of_the_data_may_have_any_name(
    spark: SparkSession, opened: Callable[..., Table], keys: tuple[str, ...]
) -> None:
    table = opened()
    columns = f"_rank INT, deaths INT, rank INT, d INT, identity INT, {RECORD}, _deleted BOOLEAN"
    table.upsert(data_frame(spark, columns, [(*[None] * 5, *record(0, 0, "x"), True)]), keys)
    for offset in (1, 2):
        table.upsert(data_frame(spark, columns, [(1, 2, 3, 4, 5, *record(0, offset, "y"), False)]), keys)
    names = ("_rank", "deaths", "rank", "d", "identity")
    assert [tuple(row) for row in table.read().select(*names).collect()] == [(1, 2, 3, 4, 5)]


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
