"""Exports a topic's segment files as Parquet, without Spark and without a broker.

    export(ReadOptions(("/var/kafkapy",), ("orders",)), Path("orders.parquet"))

The target is a folder of files TOPIC-PARTITION-OFFSET.parquet. Each file has a range of offsets of one
partition, in their order, and the columns of the source kafkapy-log (log/arrow_columns.py).
An export without rows has one file, with the columns only.

Crash story: the files are written and synced in a hidden folder beside the target, `.NAME.XXXXXXXX.partial`,
which is renamed as the last step. So a reader finds the complete export or nothing. An export that fails or
is interrupted removes the hidden folder. One that is killed leaves it, and it can be deleted.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from kafkapy.log.arrow_columns import schema
from kafkapy.log.places import open_files, readers_of
from kafkapy.log.plan import plan_batch
from kafkapy.log.range_reader import read_range
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange, group
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The numbers of rows, files and bytes that were written."""

    rows: int
    files: int
    nbytes: int


class Progress:
    """Receives the progress of an export, and ignores it."""

    def planned(self, nbytes: int) -> None:
        """Called with about the number of bytes of log that will be read."""

    def read(self, nbytes: int, rows: int) -> None:
        """Called from any thread with the number of further bytes read, and their rows."""


def export(options: ReadOptions, target: Path, progress: Progress | None = None) -> ExportResult:
    """Write the records that `options` select to the folder `target`.

    The folder is created. It may already exist if it is empty.

    Raises:
        PipelineError: the target cannot be written.
        LogSourceError: the topic cannot be read.
    """
    progress = progress or Progress()
    _check_target(target)
    # The splits of two cores make files of a size that suits readers.
    files = open_files(options)
    splits = group(plan_batch(files, options), cores=2)
    progress.planned(sum(each.nbytes for ranges in splits for each in ranges))
    staging: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
        staging.mkdir()
        result = _Writer(files, options, staging, progress).write(
            [each for ranges in splits for each in ranges]
        )
        _publish(staging, target)
    except OSError as error:
        raise PipelineError(f"{target} cannot be written: {error.strerror or error}.") from None
    finally:
        if staging is not None and staging.exists():
            shutil.rmtree(staging, ignore_errors=True)
    return result


def _check_target(target: Path) -> None:
    try:
        if target.is_dir() and not any(target.iterdir()):
            return
    except OSError as error:
        raise PipelineError(f"{target} cannot be read: {error.strerror or error}.") from None
    above = next(each for each in target.absolute().parents if each.exists())
    if not above.is_dir():
        raise PipelineError(f"{target} cannot be made: {above} is not a directory.")
    if target.exists():
        raise PipelineError(f"{target} is there already: remove it, or export to another place.")


def _publish(staging: Path, target: Path) -> None:
    files = FileSystem()
    for path in staging.iterdir():
        files.sync_path(str(path))
    files.sync_directory(str(staging))
    files.rename(str(staging), str(target))
    files.sync_directory(str(target.parent))


class _Writer:
    """Writes a Parquet file for each range, as many at a time as there are cores."""

    def __init__(self, files: ReadOnlyFiles, options: ReadOptions, folder: Path, progress: Progress) -> None:
        self._files = files
        self._options = options
        self._folder = folder
        self._progress = progress
        self._schema = schema(headers=options.include_headers)
        self._stop = threading.Event()

    def write(self, ranges: Sequence[OffsetRange]) -> ExportResult:
        if not ranges:
            with pq.ParquetWriter(self._folder / "empty.parquet", self._schema):
                pass
        rows = 0
        with ThreadPoolExecutor(readers_of(self._files), "kafkapy-export") as pool:
            jobs = [pool.submit(self._write, each) for each in ranges]
            try:
                for job in jobs:
                    rows += job.result()
            except BaseException:
                self._stop.set()
                for job in jobs:
                    job.cancel()
                raise
        files = list(self._folder.iterdir())
        return ExportResult(rows, len(files), sum(path.stat().st_size for path in files))

    def _write(self, wanted: OffsetRange) -> int:
        """Write a range as a file; return the number of rows."""
        options = self._options
        name = f"{wanted.topic_partition}-{wanted.start:020d}.parquet"
        rows = 0
        before = wanted.start
        with pq.ParquetWriter(self._folder / name, self._schema, compression=_CODEC) as writer:
            for batch in read_range(
                self._files,
                wanted,
                headers=options.include_headers,
                fail_on_data_loss=options.fail_on_data_loss,
            ):
                if self._stop.is_set():
                    break
                writer.write_batch(batch)
                rows += batch.num_rows
                after = batch.column("offset")[-1].as_py() + 1
                share = (after - before) / (wanted.end - wanted.start)
                self._progress.read(round(wanted.nbytes * share), batch.num_rows)
                before = after
        return rows
