"""One batch of a pipeline.

`foreachBatch` calls it with the records between two sets of offsets:

0. The topic must still be the one of the offsets. A recreated topic may have the same offsets for other
   records.
1. Values are parsed. A record that cannot become a row gets an error (`_error`). If that is a field for which
   a column can be added, the column is added, and the batch begins again.
   A record that `where` or a change stream leaves out becomes neither, and is counted.
2. The records with errors are sent to the dead-letter topic, unless they are too many.
3. The rows are written to the table, in one commit. The batch takes effect here.
4. progress.json is written.
5. The table is maintained, if that is due (`maintenance.py`).

If the driver is killed before step 3, Spark runs the batch again with the same records. Dead letters may be
duplicated; the table has no rows of the batch. If it is killed after step 3, Spark runs the batch again too.
The table recognises the batch by its number and offsets, and does not change (`tables/batch.py`).

Most batches have no errors and are computed once: the rows are written directly, and Spark fails at the first
error (`_strictly`). Only after an error do the executors keep the parsed batch, which is then read twice
(`_sorting_out`). The following batches are kept too, until one has no error. Keeping every batch would double
the time.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.dead_letters.dead_letters import write_dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.outcomes import is_deleting, is_ignored, is_left_out
from kafkapy.pipeline.named_columns import key_problem
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import created_anew
from kafkapy.pipeline.run.limits import Limits
from kafkapy.pipeline.run.maintenance import Maintained, Maintenance
from kafkapy.pipeline.run.reasons import Counts
from kafkapy.pipeline.state import Progress, State
from kafkapy.pipeline.stream_failures import causes
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.few_records import FEW, INTERPRETED
from kafkapy.pipeline.tables.sql import settings
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from kafkapy.pipeline.formats import Format
    from kafkapy.pipeline.tables import Table

_MARK: Final = "kafkapy-bad-record"
_REASONS: Final = 3
# Names that no data has.
_IGNORED: Final = "kafkapy: ignored"
_LEFT_OUT: Final = "kafkapy: left out"
_RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers")


@dataclass(frozen=True)
class WrittenBatch:
    """The rows that a batch wrote to the table, now or before its driver was killed."""

    id: int
    counts: Counts
    seconds: float
    maintained: Maintained = field(default_factory=Maintained)


class Batches:
    """Writes the batches of one run.

    `mode` is append or upsert.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        mode: str,
        state: State,
        topics: Topics,
        parser: Format,
        table: Table,
        maintenance: Maintenance,
        limits: Limits,
    ) -> None:
        self._definition, self._mode, self._state, self._topics = definition, mode, state, topics
        self._format, self._table, self._maintenance = parser, table, maintenance
        # Not the pipeline's name: it may change between a kill and the next start.
        self._app_id = state.app_id(definition.topic)
        self._errors_expected = False
        self._limit, self._limits = definition.dead_letter_limit, limits
        self._dead_letters = 0
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self.failure: BaseException | None = None
        self.written: deque[WrittenBatch] = deque()
        self.last = -1
        self._present: tuple[int, float] | None = None

    @property
    def present(self) -> tuple[int, float] | None:
        """The number and the age in seconds of the batch that is being written, or None."""
        present = self._present
        return None if present is None else (present[0], time.monotonic() - present[1])

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        with self._writing:
            if self._closed.is_set():
                raise InterruptedError("the run is being stopped")
            self._present = batch_id, time.monotonic()
            try:
                self._write(records, batch_id)
            except BaseException as error:
                # Spark would return only its text, within a page of Java and Python traces.
                self.failure = error
                raise
            finally:
                self._present = None

    def close(self, timeout: float) -> bool:
        """Lets the present batch finish and starts no other.

        False if it did not finish in `timeout` seconds.
        """
        self._closed.set()
        if not self._writing.acquire(timeout=timeout):
            return False
        self._writing.release()
        return True

    def _write(self, records: DataFrame, batch_id: int) -> None:
        started = time.monotonic()
        self._state.check_lock()
        self._check_topic()
        batch = Batch(self._app_id, batch_id, checkpoint.batch_offsets(self._state, batch_id))
        few = batch.records is not None and batch.records <= FEW
        if few:
            # Before they are parsed: Python's functions would be started for each partition of the topic.
            records = records.coalesce(1)
        # Upserts read their table, joins another one, which may have many rows.
        interpreted = few and self._mode == "append" and not self._definition.join
        with settings(records.sparkSession, INTERPRETED if interpreted else {}):
            while (counts := self._parsed_and_written(records, batch)) is None:
                pass
        self._errors_expected = counts.dead_letters > 0
        if batch_id != self.last:  # which Spark may run again, if it could not commit it
            self._dead_letters += counts.dead_letters
        seconds = time.monotonic() - started
        self._state.check_lock()
        self._remember(batch_id, counts, seconds)
        self.last = batch_id
        self._present = None
        maintained = Maintained()
        if not self._closed.is_set():
            maintained = self._maintenance.after_batch(records.sparkSession)
        self.written.append(WrittenBatch(batch_id, counts, seconds, maintained))

    def _parsed_and_written(self, records: DataFrame, batch: Batch) -> Counts | None:
        """What was written; None if the batch has to begin again."""
        parsed = self._with_key_errors(self._format.parse(records))
        if not self._errors_expected:
            try:
                counts = self._strictly(parsed, batch)
                self._check_limit(counts, batch)
                return counts
            except Exception as error:
                found = _first_bad_record(error)
                if found is None:
                    raise
                if self._definition.dead_letter is None:
                    if self._format.learn(parsed):
                        return None
                    raise self._refusal(found, batch) from None
        return self._sorting_out(parsed, batch)

    def _check_topic(self) -> None:
        try:
            problem = created_anew(self._definition, self._state, self._topics)
        except PipelineError:  # the broker is away; Spark waits longer for it
            return
        if problem is not None:
            raise problem

    def _with_key_errors(self, parsed: DataFrame) -> DataFrame:
        """Adds an error to rows without a key: an upserted row must say which row it replaces."""
        if self._mode != "upsert":
            return parsed
        keyless = f.when(f.col("key").isNull(), "has no key")
        if self._definition.key:
            keyless = f.when(f.col("value").isNull() & f.col("key").isNull(), "is a tombstone without a key")
            for name in self._present_key_columns(parsed):
                missing = f.col("value").isNotNull() & f.col("_data").getField(name).isNull()
                keyless = keyless.when(missing, f"has no value in the key column {name}")
        if "_left_out" in parsed.columns:  # it may have no key: then it changes no row
            keyless = f.when(f.col("_left_out").isNull(), keyless)
        return parsed.withColumn("_error", f.coalesce(f.col("_error"), keyless))

    def _present_key_columns(self, parsed: DataFrame) -> Sequence[str]:
        """The key columns; none as long as no value was valid, which gives the data its columns.

        Raises PipelineError if the data lacks one.
        """
        columns = json.loads(parsed.schema["_data"].dataType.json())
        if not columns["fields"]:
            return ()
        if problem := key_problem(self._definition.key, columns):
            raise PipelineError(f"{self._definition.name}: {problem}")
        return self._definition.key

    def _strictly(self, parsed: DataFrame, batch: Batch) -> Counts:
        """Writes the batch if no record has an error; otherwise raises the first error."""
        place = [f.col(name) for name in ("topic", "partition", "offset")]
        told = f.to_json(f.struct(*place, f.col("_error").alias("error")))
        failing = f.raise_error(f.concat(f.lit(f"{_MARK} "), told)).cast("bigint")
        # The check is in one column that is always written. Spark would push a filter below the parsing, and
        # parse each value twice.
        offset = f.when(f.col("_error").isNull(), f.col("offset")).otherwise(failing)
        checked = parsed.withColumn("offset", offset)
        counted = _Counted(self._rows(checked))
        self._store(counted.rows, batch)
        found = counted.get()
        return self._counts(parsed) if found is None else found

    def _sorting_out(self, parsed: DataFrame, batch: Batch) -> Counts | None:
        """Writes the dead letters, then the rows; None if the batch has to begin again."""
        # Not with cache(): Delta refuses a MERGE from a cached source.
        kept = parsed.localCheckpoint(eager=False)
        try:
            if self._format.learn(kept):
                return None
            counts = self._counts(kept)
            bad = kept.filter(f.col("_error").isNotNull())
            self._check_limit(counts, batch, bad)
            write_dead_letters(bad, self._definition, self._state.begin())
            self._store(_without_ignored(self._rows(kept.filter(f.col("_error").isNull()))), batch)
            return counts
        finally:
            kept._jdf.queryExecution().logical().rdd().unpersist(False)

    def _check_limit(self, counts: Counts, batch: Batch, bad: DataFrame | None = None) -> None:
        """Raises LimitError if the batch has too many dead letters, which are `bad`."""
        limit, before, letters = self._limit, self._dead_letters, counts.dead_letters
        # A number that a run has exceeded stays so, whatever the next batch has.
        if limit is None or batch.id == self.last or (limit.number is not None and not letters):
            return
        if bad is None or not limit.exceeded(letters, counts.records, before):
            self._limits.check_dead_letters(None)
            return
        place = f.concat_ws("-", "topic", "partition", "offset")
        first = bad.select(f.concat_ws(" ", place, f.left("_error", f.lit(200)))).limit(_REASONS).collect()
        reasons = "; ".join([one for (one,) in first] + ["..."] * (letters > _REASONS))
        self._limits.check_dead_letters(
            f"{letters:,} of the {counts.records:,} records of batch {batch.id} cannot become rows "
            f"({reasons}), and max_dead_letters allows {limit.told(before)}"
        )

    def _rows(self, good: DataFrame) -> DataFrame:
        """The rows of the table, marked with what becomes of them if some may be left out."""
        columns = [f.col("_data.*"), *(f.col(name).alias(f"_{name}") for name in _RECORD_COLUMNS)]
        if self._mode == "upsert":
            columns.append(is_deleting(good).alias("_deleted"))
        if "_left_out" in good.columns:
            upsert = self._mode == "upsert"
            keys = self._present_key_columns(good)
            columns.append(is_ignored(good, upsert=upsert, keys=keys).alias(_IGNORED))
            columns.append(is_left_out(good, upsert=upsert).alias(_LEFT_OUT))
        return good.select(*columns)

    def _counts(self, parsed: DataFrame) -> Counts:
        return Counts.of(parsed, is_left_out(parsed, upsert=self._mode == "upsert"))

    def _store(self, rows: DataFrame, batch: Batch) -> None:
        self._state.check_lock()
        if self._mode == "append":
            self._table.append(rows, batch)
        else:
            # Few rows are known by the places of their records.
            several = self._definition.format.has_several_rows
            self._table.upsert(rows, self._definition.key, None if several else batch.records)

    def _refusal(self, found: dict[str, object], batch: Batch) -> PipelineError:
        return PipelineError(
            f"{self._definition.name}: the record {found['topic']}-{found['partition']}-{found['offset']} "
            f"{found['error']}; nothing of batch {batch.id} was written; to continue without such records, "
            f"send them to a topic: dead_letter: {self._definition.topic}.dlq"
        )

    def _remember(self, batch_id: int, counts: Counts, seconds: float) -> None:
        before, incarnation = self._state.progress, self._state.begin().id
        if before is not None and (before.incarnation, before.batch) == (incarnation, batch_id):
            return  # a driver that was killed before Spark's commit has counted this batch already
        self._state.progress = Progress(
            incarnation=incarnation,
            batch=batch_id,
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            rows=counts.rows,
            seconds=round(seconds, 3),
            total_rows=counts.rows + (before.total_rows if before else 0),
            dead_letters=counts.dead_letters + (before.dead_letters if before else 0),
            left_out=counts.left_out + (before.left_out if before else 0),
        )


class _Counted:
    """A data frame that counts its rows while they are computed for another purpose.

    Counting splits Spark's generated code in two, so it is placed after the parsing, where rows are built
    anyway. Those that are ignored are left out after that: Spark pushes no condition through it, and would
    otherwise parse each value once more for the condition.
    """

    _PATIENCE: Final = 2.0  # seconds; Spark's listener reports the count a moment after the job

    def __init__(self, rows: DataFrame) -> None:
        self._observation = Observation()
        counts = [f.count(f.lit(1)).alias("records")]
        if _LEFT_OUT in rows.columns:
            counts.append(f.count_if(f.col(_LEFT_OUT)).alias("left_out"))
        self.rows = _without_ignored(rows.observe(self._observation, *counts))

    def get(self) -> Counts | None:
        """The counts.

        None if they were not computed, because the table had the batch already.
        """
        deadline = time.monotonic() + self._PATIENCE
        while not self._observation._jo.future().isCompleted():  # `get` would wait forever
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.005)
        found = self._observation.get
        left_out = int(found.get("left_out", 0))
        return Counts(int(found["records"]) - left_out, left_out=left_out)


def _without_ignored(rows: DataFrame) -> DataFrame:
    if _IGNORED not in rows.columns:
        return rows
    return rows.where(~f.col(_IGNORED)).drop(_IGNORED, _LEFT_OUT)


def _first_bad_record(error: Exception) -> dict[str, object] | None:
    for _, message in causes(error):
        _, marked, following = message.partition(f"{_MARK} {{")
        if marked:
            found: dict[str, object] = json.JSONDecoder().raw_decode("{" + following)[0]
            return found
    return None
