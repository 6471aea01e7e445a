"""Compares a table with its topic, offset by offset, even while the pipeline writes.

It reads, in this order:

    1. the committed batch in the checkpoint: all offsets below its end must be in the table
    2. the table's offsets, which are persisted, so that all comparisons see the same rows
    3. the planned batch: a plan is written before its batch, so the table has no offset beyond the plan
    4. the topic's start and end, and its records from the pipeline's first start to the plan

In this order, a batch that is written during the audit cannot look missing or beyond the end. The table must
have the offsets that the pipeline has read, including those before resets (`read_ranges.py`). Records are
read with the pipeline's isolation level, read_committed. If retention deletes records while they are read,
the comparison is repeated from the new start.

An audit may be of a window of offsets (`window.py`), or of what came after the last one (`audited.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.audit.audited import Audited
from kafkapy.pipeline.audit.report import NOTES, AuditReport, Bounds, Finding
from kafkapy.pipeline.audit.window import Window
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.positions import created_anew
from kafkapy.pipeline.read_ranges import Ranges, gaps, with_present
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkapy.pipeline.audit.sides import AuditSides

__all__ = ["AuditReport", "audit"]

_ATTEMPTS = 3


def audit(
    definition: PipelineDefinition | str,
    spark: SparkSession | None = None,
    *,
    examples: int = 10,
    deep: bool = False,
    starting: str | None = None,
    ending: str | None = None,
    incremental: bool = False,
) -> AuditReport:
    """Audits a table and returns the report, with the first `examples` of each finding.

    `definition` may be the path of a table or of a YAML file. Without `spark`, a session is created, and
    stopped at the end. `deep` compares the content of rows and records too. `starting` and `ending` are
    offsets as `named_offsets.py` has them; `incremental` begins where the last incremental audit ended that
    had no findings. Raises PipelineError if there is nothing to compare.
    """
    if incremental and (starting or ending):
        raise PipelineError("--incremental finds its window itself; leave out --from and --to")
    if isinstance(definition, str):
        definition = PipelineDefinition.load(definition)
    state = State.of(definition)
    check_comparable(definition, state)
    with spark_for(definition, spark) as session, spark_failures(definition):
        topics = Topics(definition.bootstrap, definition.kafka_options)
        window = Window.named(definition, topics, starting, ending)
        begun = Audit(definition, session, state, examples=examples, deep=deep, window=window)
        if incremental:
            begun.go_on()
        report = _compared(begun)
        if incremental and report.ok:
            begun.note()
        return report


def check_comparable(definition: PipelineDefinition, state: State) -> None:
    """Raises PipelineError if the table cannot be compared with its topic; starts no Spark."""
    if problem := checkpoint.lost(state) or checkpoint.damage(state):
        raise problem
    _start(definition, state)
    topics = Topics(definition.bootstrap, definition.kafka_options)
    topics.partitions(definition.topic)
    if problem := created_anew(definition, state, topics):
        raise problem


def _start(definition: PipelineDefinition, state: State) -> dict[int, int]:
    start = checkpoint.initial_offsets(state)
    if start is None:
        reset = state.incarnation is not None and state.incarnation.starting_offsets is not None
        since = " since it was reset" if reset else ""
        raise PipelineError(
            f"pipeline {definition.name} has not run{since}: nothing to compare; run it first"
        )
    return start


class Audit:
    """One audit: the table's rows as they were when it began, and how far the pipeline was."""

    def __init__(
        self,
        definition: PipelineDefinition,
        spark: SparkSession,
        state: State,
        *,
        examples: int = 0,
        deep: bool = False,
        window: Window | None = None,
    ) -> None:
        from kafkapy.pipeline.audit.sides import AuditSides

        self.definition, self.state = definition, state
        self.topics = Topics(definition.bootstrap, definition.kafka_options)
        start = _start(definition, state)
        self.incarnation = incarnation = state.incarnation
        policy = self.topics.cleanup_policy(definition.topic)
        former = state.definition  # the mode of the last run: the topic's policy may have changed since
        self.mode = definition.mode or (former and former.mode) or definition.mode_for(policy)
        self.window = window or Window()
        self.window.check_mode(self.mode)
        self.sides = AuditSides(definition, spark, self.topics, upsert=self.mode == "upsert", deep=deep)
        self.batch = checkpoint.committed_batch(state)
        self._committed = checkpoint.committed_offsets(state) or start
        # Persisted, since a second computation would see a later table; not cached, since other queries would
        # use it.
        self.rows = self._within_window(self.sides.rows()).localCheckpoint()
        self._planned = checkpoint.planned_offsets(state) or self._committed
        self._read = with_present({} if incarnation is None else incarnation.read, start, self._committed)
        self._compacted, self.examples, self.deep = "compact" in policy, examples, deep
        self._last: Audited | None = None
        self._all_rows = self.rows

    def _within_window(self, rows: DataFrame) -> DataFrame:
        """The rows that the window asks for.

        Of an upsert table these are all, since one of a key may be older.
        """
        return rows if self.mode == "upsert" else rows.where(self.window.condition)

    def go_on(self) -> None:
        """Leaves out what the last incremental audit found right, if that can be relied on."""
        last = Audited.last(self.state, deep=self.deep)
        if last is not None and last.still_holds(self.rows, self._incarnation_id, self.mode):
            self._last, self.window = last, Window(starting=last.until)
            self.rows = self._within_window(self.rows)

    def note(self) -> None:
        """Remembers that there were no findings up to the committed batch."""
        found = Audited.of(self._all_rows, self._incarnation_id, self.mode, self._committed)
        found.note(self.state, deep=self.deep)

    @property
    def _incarnation_id(self) -> str:
        return "" if self.incarnation is None else self.incarnation.id

    @property
    def limits(self) -> tuple[str, ...]:
        return self.window.limits(self.mode) if self._last is None else (self._last.limit,)

    def comparison(self) -> Comparison:
        """The comparison with the topic as it is now."""
        topic = self.definition.topic
        bounds = _bounds(self.topics, topic, self._read, self._committed, self._planned, self.window)
        return Comparison(
            self.sides,
            self.rows,
            bounds,
            topic=topic,
            compacted=self._compacted,
            examples=self.examples,
        )


def _compared(begun: Audit) -> AuditReport:
    definition = begun.definition
    for attempt in range(_ATTEMPTS):
        comparison = begun.comparison()
        try:
            notes, findings = comparison.upserts() if begun.mode == "upsert" else comparison.appends()
            if begun.deep:
                findings += comparison.changes()
        except Exception:
            now = begun.topics.start_offsets(definition.topic)
            expired = any(now.get(each.partition, 0) > each.log_start for each in comparison.bounds)
            if expired and attempt + 1 < _ATTEMPTS:
                continue
            raise
        break
    if begun.state.incarnation != begun.incarnation:
        raise PipelineError(f"pipeline {definition.name} was reset during the audit; audit it again")
    return AuditReport(
        pipeline=definition.name,
        table=str(definition.table),
        topic=definition.topic,
        mode=begun.mode,
        batch=begun.batch,
        bounds=comparison.bounds,
        notes=notes,
        findings=findings,
        files_to_rewrite=begun.sides.files_to_rewrite(),
        limits=begun.limits,
    )


def _bounds(
    topics: Topics,
    topic: str,
    read: Ranges,
    committed: dict[int, int],
    planned: dict[int, int],
    window: Window,
) -> tuple[Bounds, ...]:
    """The bounds of every partition.

    Nothing has been read of a partition that was added later.
    """
    log_start, end = topics.start_offsets(topic), topics.end_offsets(topic)
    bounds = []
    for partition in sorted(end):
        done, ranges = committed.get(partition, 0), read.get(partition, ())
        bounds.append(
            Bounds(
                partition=partition,
                start=min(ranges[0][0], done) if ranges else done,
                committed=done,
                planned=max(done, planned.get(partition, 0)),
                log_start=log_start.get(partition, 0),
                end=end[partition],
                skipped=gaps(ranges, done),
                starting=window.starting.get(partition, 0),
                ending=window.ending.get(partition),
            )
        )
    return tuple(bounds)


class Comparison:
    """One attempt at the comparison, with its notes and findings."""

    def __init__(
        self,
        sides: AuditSides,
        rows: DataFrame,
        bounds: tuple[Bounds, ...],
        *,
        topic: str,
        compacted: bool,
        examples: int,
    ) -> None:
        self._sides, self._rows, self.bounds = sides, rows, bounds
        self._topic, self._compacted, self._examples = topic, compacted, examples

    def appends(self) -> tuple[dict[str, int], tuple[Finding, ...]]:
        from kafkapy.pipeline.audit.append import judge_append, range_findings

        judged = judge_append(
            self._rows,
            self._sides.records(self.bounds, self._earliest()),
            self._dead_letters(),
            self.bounds,
            topic=self._topic,
            compacted=self._compacted,
        )
        counts, records = _counted(judged, "has_record")
        notes = self._notes(counts, no_record=sum(b.compared for b in self.bounds) - records)
        return notes, range_findings(judged, counts, self._examples)

    def upserts(self) -> tuple[dict[str, int], tuple[Finding, ...]]:
        from kafkapy.pipeline.audit.upsert import explained, key_findings

        dead = self._dead_letters()
        judged = self._judged_upsert(dead, self.bounds)
        counts, _ = _counted(judged)
        if counts.get("missing") and any(each.starting for each in self.bounds):
            # A tombstone before the window, in another partition of its key, may be the later record.
            everything = [replace(each, starting=0) for each in self.bounds]
            judged = explained(judged, self._judged_upsert(dead, everything))
            counts, _ = _counted(judged)
        notes = self._notes(counts, dead_letters=dead.count())
        return notes, key_findings(judged, counts, self._examples)

    def _judged_upsert(self, dead: DataFrame, bounds: Sequence[Bounds]) -> DataFrame:
        from kafkapy.pipeline.audit.upsert import judge_upsert

        return judge_upsert(
            self._rows,
            self._sides.records(bounds, {}),
            dead,
            bounds,
            topic=self._topic,
            compacted=self._compacted,
        )

    def changes(self) -> tuple[Finding, ...]:
        """The rows whose content differs from the record at their offset."""
        from pyspark.sql import functions as f

        from kafkapy.pipeline.audit.append import range_findings

        records, place = self._sides.records(self.bounds, self._earliest()), self._sides.place_of_a_row
        changed = (
            self._rows.where(f"topic = '{self._topic}'")
            .join(records.select(*place, f.col("digest").alias("expected")), list(place))
            .where("digest <> expected")
            .selectExpr("'changed' AS verdict", "topic", "partition", "offset")
        )
        return range_findings(changed, _counted(changed)[0], self._examples)

    def repairs(self, mode: str) -> tuple[DataFrame, DataFrame]:
        """The places to empty, with a verdict, and those of the rows that are put back."""
        from kafkapy.pipeline.audit.repairs import append_repairs, upsert_repairs

        records = self._sides.records(self.bounds, self._earliest() if mode == "append" else {})
        judging = upsert_repairs if mode == "upsert" else append_repairs
        return judging(
            self._rows,
            records,
            self._dead_letters(),
            self.bounds,
            topic=self._topic,
            compacted=self._compacted,
        )

    def _dead_letters(self) -> DataFrame:
        """The records that are no rows.

        One that did not fit at first may have become a row since, with another schema after a reset.
        """
        place = ["partition", "offset"]
        rows = self._rows.where(f"topic = '{self._topic}'").select(*place)
        return self._sides.dead_letters().join(rows, place, "left_anti")

    def _earliest(self) -> dict[int, int]:
        """The lowest offset in the table by partition.

        It may be below the known start.
        """
        found = self._rows.where("partition IS NOT NULL AND offset >= 0").groupBy("partition").min("offset")
        return dict(found.collect())

    def _notes(self, counts: dict[str, int], **more: int) -> dict[str, int]:
        expired, not_read = sum(b.expired for b in self.bounds), sum(b.not_read for b in self.bounds)
        lost = sum(end - first for b in self.bounds for first, end in b.lost)
        noted = {**counts, "lost": lost, "expired_offsets": expired, "not_read": not_read, **more}
        return {kind: noted[kind] for kind in NOTES if noted.get(kind)}


def _counted(judged: DataFrame, flag: str = "false") -> tuple[dict[str, int], int]:
    """The number of offsets or keys with each verdict, and the number of all that have `flag`."""
    from pyspark.sql import functions as f

    found = judged.groupBy("verdict").agg(f.count(f.lit(1)), f.count_if(f.expr(flag))).collect()
    return {verdict: count for verdict, count, _ in found if verdict}, sum(flagged for *_, flagged in found)
