"""The definition that a table was last written with, compared with the present one."""

from __future__ import annotations

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State


def check_former(definition: PipelineDefinition, state: State, mode: str | None) -> None:
    """Raises PipelineError unless topic, mode and key are those of the rows that the table has.

    Without `mode` it is not compared.
    """
    former = state.definition
    if former is None:
        return
    where = f"{definition.table}: this table"
    if former.topic != definition.topic:
        raise PipelineError(
            f"{where} holds the topic {former.topic}, not {definition.topic}; write to another table"
        )
    if None not in (former.mode, mode) and former.mode != mode:
        raise PipelineError(
            f"{where} was written with mode {former.mode}, not {mode}; set mode: {former.mode}, "
            "or write to another table"
        )
    if former.key != definition.key:
        keys = [", ".join(one.key) or "the record key" for one in (former, definition)]
        raise PipelineError(
            f"{where} has one row for each {keys[0]}, not {keys[1]}; keep key: as it was, "
            "or write to another table"
        )
