"""Maintains a pipeline's table: merges small files and deletes obsolete ones."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.pipeline.checkpoint import lost
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.driver_lock import driver
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.sessions import spark_for
from kafkapy.pipeline.spark_failures import spark_failures
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import check_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def maintain(
    definition: PipelineDefinition, *, retain: timedelta | None = None, spark: SparkSession | None = None
) -> list[str]:
    """Merges small files, deletes old ones, and returns lines that say what was done.

    Raises PipelineError while the pipeline runs, since its batches would conflict. Versions of the table
    that are younger than `retain` remain readable, which is the definition's if it is None.
    """
    state = State.of(definition)
    check_location(definition.table, state.store)
    if problem := lost(state):
        raise problem
    if state.incarnation is None:
        raise PipelineError(f"{definition.name} has no table yet; kafkapy pipeline run writes it")
    with (
        driver(definition, state, partial(spark_for, definition, spark)) as session,
        spark_failures(definition),
    ):
        from kafkapy.pipeline.tables import open_table

        table = open_table(session, definition.table, partition_by=definition.partition_by)
        if not table.exists():
            raise PipelineError(f"{definition.table}: there is no table yet; kafkapy pipeline run writes it")
        if (former := state.definition) is not None and former.mode == "upsert":
            state.forget_audits()  # nothing else would tell that older rows are still the same
        return table.maintain(retain or definition.retained)
