"""Reads topics from the segment files of a data directory, whether a broker runs or not.

    from kafkapy.log import scan

    orders = scan("kafkapy-data", "orders").read_all()
    duckdb.sql('select "partition", count(*) from orders group by all')

`scan`, the Spark data source `kafkapy-log` (spark/log_source/) and `kafkapy pipeline export` share this core.
It needs pyarrow and numpy, but neither a broker nor a JVM:

    scanner.py           `scan`: a topic as a stream of Arrow record batches
    read_options.py      what to read, and where it starts and ends
    places.py            where data directories are: here, or in object stores (store_files.py)
    plan.py              the ranges of offsets for it, which splits.py groups
    range_reader.py      a range as Arrow record batches (arrow_columns.py, record_columns.py)

What may be read of a partition is known to storage/offline/: offline_log.py has its segments, offsets and
aborted transactions. Nothing here writes, locks, repairs or truncates, so a broker that runs on the directory
is not affected. In an object store, it is a copy that no broker writes.

Crash story: a reader keeps nothing. offline_log.py says how it handles torn batches, checkpoints that are out
of date, and files that are deleted while it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.log.scanner import scan

__all__ = ["scan"]


def __getattr__(name: str) -> object:
    # Imported on first use: what plans a read is imported without pyarrow.
    if name == "scan":
        from kafkapy.log.scanner import scan

        return scan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
