"""Tables as others read them: pyarrow, DuckDB, deltalake, pyiceberg, Polars."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset

from interop.spark.table_batches import files_below
from kafkapy.pipeline.table_target import TableTarget

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable

Reader = Callable[[TableTarget, str], dict[int, int]]


def readers(target: TableTarget) -> Iterator[tuple[str, Reader]]:
    """All that read a table of this format."""
    yield "pyarrow", by_pyarrow
    yield "DuckDB", by_duckdb
    if target.format == "delta":
        yield "deltalake", by_deltalake
    if target.format == "iceberg":
        yield "pyiceberg", by_pyiceberg


def contents(target: TableTarget) -> Iterator[tuple[str, pa.Table]]:
    """The table as each of them reads it."""
    import duckdb

    files = [str(path) for path in live_files(target)]
    yield "pyarrow", pa.dataset.dataset(files, format="parquet").to_table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield "DuckDB", connection.read_parquet(files, union_by_name=True).to_arrow_table()
    if target.format == "delta":
        import deltalake

        yield "deltalake", deltalake.DeltaTable(target.location).to_pyarrow_table()
    if target.format == "iceberg":
        yield "pyiceberg", by_iceberg(target).scan().to_arrow()


def merged_rows(target: TableTarget) -> Iterator[tuple[str, dict[int, str]]]:
    """The column `text` by `id`, as those read it that know rows which are marked as deleted."""
    import polars

    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # without which Polars warns
    if target.format == "delta":
        import deltalake

        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(target.location))
        yield "deltalake", _texts(pa.table(query.execute("SELECT id, text FROM t").read_all()))
        scanned = polars.scan_delta(target.location)
    else:
        table = by_iceberg(target)
        yield "pyiceberg", _texts(table.scan(selected_fields=("id", "text")).to_arrow())
        scanned = polars.scan_iceberg(table)
    yield "Polars", _texts(scanned.select("id", "text").collect().to_arrow())


def partitioned_rows(target: TableTarget) -> Iterator[tuple[str, dict[int, tuple[str | None, int]]]]:
    """The columns `place`, by which the table is partitioned, and `n`, by `id`."""
    import duckdb
    import polars

    columns = ["id", "place", "n"]
    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # without which Polars warns
    files = [str(path) for path in live_files(target)]
    if target.format == "delta":
        import deltalake

        yield "deltalake", _places(deltalake.DeltaTable(target.location).to_pyarrow_table(columns=columns))
        # Polars opens no Delta table in a folder whose name has a space or other letters than ASCII has.
        plain = Path(target.location).with_name("plain")
        shutil.rmtree(plain, ignore_errors=True)
        shutil.copytree(target.location, plain)
        scanned = polars.scan_delta(str(plain))
    elif target.format == "iceberg":
        yield "pyiceberg", _places(by_iceberg(target).scan(selected_fields=tuple(columns)).to_arrow())
        scanned = polars.scan_iceberg(by_iceberg(target))
    else:
        hive = pa.dataset.partitioning(flavor="hive", schema=pa.schema([("place", pa.string())]))
        found = pa.dataset.dataset(files, format="parquet", partitioning=hive)
        yield "pyarrow", _places(found.to_table(columns))
        scanned = polars.scan_parquet(files, glob=False, hive_partitioning=True, try_parse_hive_dates=False)
    yield "Polars", _places(scanned.select(columns).collect().to_arrow())
    if target.format == "iceberg":  # whose files may have rows that are marked as deleted
        return
    with duckdb.connect() as connection:
        how = "hive_partitioning = true, hive_types_autocast = false"
        source = connection.sql(f"SELECT id, place, n FROM read_parquet(?, {how})", params=[files])
        yield "DuckDB", _places(source.to_arrow_table())


def _places(table: pa.Table) -> dict[int, tuple[str | None, int]]:
    ids = table.column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    return dict(
        zip(
            ids,
            zip(table.column("place").to_pylist(), table.column("n").to_pylist(), strict=True),
            strict=True,
        )
    )


def _texts(table: pa.Table) -> dict[int, str]:
    ids = table.column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, table.column("text").to_pylist(), strict=True))


def of_changed_types(target: TableTarget) -> pa.Table:
    """A Delta or Iceberg table of files with different types, as DuckDB or pyiceberg reads it.

    deltalake 1.6 reads no table whose types have become wider; DuckDB reads its files.
    """
    if target.format == "iceberg":
        return by_iceberg(target).scan().to_arrow()
    import duckdb

    files = [str(path) for path in live_files(target)]
    with duckdb.connect() as connection:
        return connection.read_parquet(files, union_by_name=True).to_arrow_table()


def by_pyarrow(target: TableTarget, column: str) -> dict[int, int]:
    files = [str(path) for path in live_files(target)]
    return _instants(pa.dataset.dataset(files, format="parquet").to_table(["id", column]), column)


def by_duckdb(target: TableTarget, column: str) -> dict[int, int]:
    import duckdb

    files = [str(path) for path in live_files(target)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")  # an instant does not depend on it
        source = connection.read_parquet(files)
        kind = dict(zip(source.columns, source.types, strict=True))[column]
        assert str(kind) == "TIMESTAMP WITH TIME ZONE"
        found = source.project(f"id, epoch_us({column})").fetchall()
    return dict(found)


def by_deltalake(target: TableTarget, column: str) -> dict[int, int]:
    import deltalake

    table = deltalake.DeltaTable(target.location)
    return _instants(table.to_pyarrow_table(columns=["id", column]), column)


def by_pyiceberg(target: TableTarget, column: str) -> dict[int, int]:
    return _instants(by_iceberg(target).scan(selected_fields=("id", column)).to_arrow(), column)


def by_iceberg(target: TableTarget) -> StaticTable:
    from pyiceberg.table import StaticTable

    (_, newest) = max(
        (int(path.name.removeprefix("v").partition(".")[0]), path)
        for path in Path(target.location, "metadata").glob("v*.metadata.json")
    )
    return StaticTable.from_metadata(str(newest))


def iceberg_snapshots(target: TableTarget) -> list[int]:
    """The ids of the snapshots, oldest first, as pyiceberg reads them."""
    return [snapshot.snapshot_id for snapshot in by_iceberg(target).snapshots()]


def live_files(target: TableTarget) -> list[Path]:
    """The data files of the table's last version."""
    if target.format == "delta":
        import deltalake

        # The table's own folder is percent-encoded, and what is below it is as on the disk.
        own = len(Path(target.location).parts)
        found = [Path(name).parts for name in deltalake.DeltaTable(target.location).file_uris()]
        return [Path(*map(unquote, parts[:own]), *parts[own:]) for parts in found]
    return files_below(target.location)


def _instants(table: pa.Table, column: str) -> dict[int, int]:
    """Microseconds since 1970 by id."""
    kind = table.schema.field(column).type
    assert pa.types.is_timestamp(kind)
    assert kind.unit == "us"
    assert kind.tz is not None
    micros = table.column(column).cast(pa.int64()).to_pylist()
    return dict(zip(table.column("id").to_pylist(), micros, strict=True))
