"""The changes of a small upsert, found by reading the table's keys once.

A MERGE of Delta reads a table three times, each time with a shuffle of its keys: to find the files, to write
the new rows, and to mark the old ones. The rows that a hundred records replace can be named in a condition,
with which Delta marks them and writes the new ones, in one commit.

A row is named by its partition and offset, from which Delta knows the files, and by a hash of these, its
timestamp and its keys: in a recreated topic, offsets begin anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkapy.pipeline.tables.sql import quoted

FEW: Final = 1_000
"""The most rows that are changed in this way: their offsets are in the text of a condition."""

ONE_TASK: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for shuffles of so few rows: Spark would plan again after each, to find one task enough."""

NOTHING: Final = "false"
_IDENTITY: Final = "`kafkapy: identity`"  # a name that no data has


@dataclass(frozen=True)
class FewChanges:
    """Which rows of a table a batch replaces, and which of its own are outdated, as conditions."""

    replaced: str
    outdated: str

    @classmethod
    def of(cls, table: str, source: DataFrame, keys: Sequence[str], partition: str, later: str) -> FewChanges:
        """Compares `source` (alias s) with the rows of the table (alias t) that have its keys.

        `later` is the condition that the record of s is later, and `partition` the column with a record's
        partition.
        """
        columns = [quoted(name) for name in dict.fromkeys((*keys, partition, "_offset", "_timestamp"))]
        identity = f"xxhash64({', '.join(columns)})"
        stored = (
            source.sparkSession.table(table).selectExpr(*columns, f"{identity} AS {_IDENTITY}").alias("t")
        )
        same = f.expr(" AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys))
        joined = stored.join(f.broadcast(source.select(*columns)).alias("s"), same)
        places = [f"{one}.{column}" for one in ("t", "s") for column in (partition, "_offset")]
        found = joined.selectExpr(f"coalesce({later}, false)", f"t.{_IDENTITY}", *places).collect()
        replaced = _at_places([row[2:4] for row in found if row[0]], partition)
        if identities := sorted({row[1] for row in found if row[0]}):
            replaced = f"({replaced}) AND {identity} IN ({', '.join(f'{one}L' for one in identities)})"
        return cls(replaced, _at_places([row[4:6] for row in found if not row[0]], partition))


def _at_places(places: Collection[tuple[int, int]], partition: str) -> str:
    offsets: dict[int, list[str]] = {}
    for number, offset in sorted(set(places)):
        offsets.setdefault(number, []).append(str(offset))
    parts = (f"({partition} = {one} AND _offset IN ({', '.join(listed)}))" for one, listed in offsets.items())
    return " OR ".join(parts) or NOTHING
