"""Mends what an audit finds in a Delta or Iceberg table, in one commit of the table.

`repairs.py` says which rows. A repair that is killed has changed nothing, or everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.audit.audit import Audit, check_comparable
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.driver_lock import driver
from kafkapy.pipeline.former import check_former
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DONE: Final = {
    "duplicated": "in the table more than once: one row of each stays",
    "undeleted": "deleted by the last record of the key",
    "foreign": "not of a record of this topic",
    "beyond_end": "beyond what the topic holds or the pipeline has read",
}


@dataclass(frozen=True, kw_only=True)
class RepairPlan:
    """What a repair changes.

    `counts` are places by kind; `deleted` rows are deleted, of which `kept` are put back.
    """

    counts: dict[str, int]
    deleted: int
    kept: int

    def lines(self) -> list[str]:
        if not self.counts:
            return ["There is nothing that a repair mends"]
        listed = [f"{kind}: {self.counts[kind]:,}, {_DONE[kind]}" for kind in _DONE if kind in self.counts]
        return [*listed, f"{self.deleted - self.kept:,} rows are deleted, in one commit of the table"]


def repair(
    definition: PipelineDefinition,
    *,
    agree: Callable[[RepairPlan], bool],
    spark: SparkSession | None = None,
) -> bool:
    """Shows the plan to `agree`, and carries it out if that returns True.

    Returns whether it did. Raises PipelineError while the pipeline runs, if its table is of Parquet files, or
    if the definition is not the one that the table was written with: all its rows could be foreign then.
    """
    state = State.of(definition)
    check_former(definition, state, definition.mode)
    check_comparable(definition, state)
    if definition.format.has_several_rows:
        raise PipelineError(
            f"{definition.name}: repair: rows are mended by the places of their records, and a record of "
            f"{definition.format.changes} may have several; read the topic into another table"
        )
    with (
        driver(definition, state, partial(spark_for, definition, spark)) as session,
        spark_failures(definition),
    ):
        from kafkapy.pipeline.tables import open_table

        table = open_table(session, definition.table, partition_by=definition.partition_by)
        table.check_replaceable()
        if not table.exists():
            agree(RepairPlan(counts={}, deleted=0, kept=0))
            return False
        begun = Audit(definition, session, state)
        emptied, kept = (frame.localCheckpoint() for frame in begun.comparison().repairs(begun.mode))
        places = [name for name in emptied.columns if name != "verdict"]
        plan = RepairPlan(
            counts=dict(emptied.groupBy("verdict").count().collect()),
            deleted=_matching(begun.rows, emptied, places).count(),
            kept=kept.count(),
        )
        if not agree(plan) or not plan.counts:
            return False
        own = [f"_{name}" for name in places]
        state.forget_audits()
        back = _matching(table.read(), kept.toDF(*own), own).dropDuplicates(own)
        table.replace(emptied.select(*places).toDF(*own), back)
        return True


def _matching(rows: DataFrame, places: DataFrame, names: list[str]) -> DataFrame:
    """The rows at these places; null equals null."""
    from pyspark.sql import functions as f

    same = " AND ".join(f"r.{name} <=> p.{name}" for name in names)
    return rows.alias("r").join(places.alias("p"), f.expr(same), "left_semi")
