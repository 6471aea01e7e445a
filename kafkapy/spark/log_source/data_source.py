"""The Spark data source `kafkapy-log`: topics from files, as from Spark's Kafka source.

    spark.read.format("kafkapy-log").option("path", data_dir).option("topics", "orders,payments").load()
    spark.readStream.format("kafkapy-log").option("path", data_dir).option("topics", "orders").load()

Columns and types are those of Spark's Kafka source with includeHeaders. The options have its names; see
spark_options.py. The source must be registered with the session first
(`kafkapy.spark.log_source.register`), as `kafkapy.spark.session` does.

Executors open the path themselves. If they run on other machines, each of them and the driver must reach the
data directory under the same path (on a shared or replicated file system) or URL (log/store_files.py), and
kafkapy must be installed there. Storage options are sent to them with the plan, as all options.

A stream's offsets are kept in the form of the Kafka source, {"topic": {"0": 17}}: the next offset of each
partition. New partitions are read from their start. `maxOffsetsPerTrigger` limits how many offsets a
micro-batch spans. Spark 4.2 asks a Python source for the end of each micro-batch of an `availableNow` run.
Before 4.2 it asks only once, so a run with that limit ends after one micro-batch; do not set it there.

Spark 4.1 pushes filters down if `spark.sql.python.filterPushdown.enabled` is set, as `register` does.

Crash story: the readers keep nothing but a cache. A micro-batch that runs again is planned again from its
offsets, and has the same rows as long as its records are in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kafkapy.log.places import open_files
from kafkapy.log.plan import plan_batch
from kafkapy.log.range_reader import read_range
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange, group
from kafkapy.spark.log_source.pushed_filters import narrowed
from kafkapy.spark.log_source.spark_options import parse_options
from kafkapy.spark.log_source.stream_plan import Offsets, StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2, which does not ask for limits

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing that this Spark would call."""


_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class LogDataSource(DataSource):  # type: ignore[misc]
    """The class that Spark uses for `format("kafkapy-log")`."""

    @classmethod
    def name(cls) -> str:
        return "kafkapy-log"

    def schema(self) -> str:
        headers = str(self.options.get("includeHeaders", "true")).strip().lower() != "false"
        return _COLUMNS + _HEADERS if headers else _COLUMNS

    def reader(self, schema: Any) -> LogBatchReader:
        return LogBatchReader(parse_options(self.options, stream=False))

    def streamReader(self, schema: Any) -> LogStreamReader:  # noqa: N802
        return LogStreamReader(parse_options(self.options, stream=True))


class Split(InputPartition):  # type: ignore[misc]
    """Ranges of offsets for one Spark task."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        self.ranges = ranges


class _RangeReading:
    """The executors' part, which is the same for batches and streams."""

    _options: ReadOptions

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split.

        If there are no splits, Spark passes None, and from 4.2 on an InputPartition of its own.
        """
        options = self._options
        files = open_files(options)
        for wanted in partition.ranges if isinstance(partition, Split) else ():
            yield from read_range(
                files,
                wanted,
                headers=options.include_headers,
                fail_on_data_loss=options.fail_on_data_loss,
                only=options.only,
            )


class LogBatchReader(_RangeReading, DataSourceReader):  # type: ignore[misc]
    """Reads what the logs have when the read is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Read less than all, and leave it to Spark to apply the filters."""
        self._options = replace(self._options, only=narrowed(self._options.only, filters))
        return filters

    def partitions(self) -> list[Split]:
        options = self._options
        return [
            Split(ranges)
            for ranges in group(plan_batch(open_files(options), options), at_least=options.min_splits)
        ]


class LogStreamReader(_RangeReading, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows the logs; Spark plans with one in a process of its own, and reads with copies."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._planner = StreamPlanner(options)

    def __getstate__(self) -> Mapping[str, Any]:
        return {"options": self._options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        LogStreamReader.__init__(self, state["options"])

    def initialOffset(self) -> Offsets:  # noqa: N802
        return self._planner.initial_offsets()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        bound = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if bound is None else ReadMaxRows(bound)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planner.end_here()

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:  # noqa: N802
        """Return where a micro-batch ends; before Spark 4.2 there are no arguments."""
        return self._planner.latest_offsets(start, bounded=limit is None or isinstance(limit, ReadMaxRows))

    def partitions(self, start: Offsets, end: Offsets) -> list[Split]:
        found = self._planner.ranges(start, end)
        return [Split(ranges) for ranges in group(found, at_least=self._options.min_splits)]
