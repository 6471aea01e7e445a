"""Opens the format of a pipeline.

Only the module of that format is imported.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables.partitioning import Partitioning


def open_format(
    definition: PipelineDefinition, state: State, note: Callable[[str], None] = lambda _: None
) -> Format:
    """The format of a pipeline; schemas that it finds in the records are kept in `state`.

    `note` is called with what it inferred.
    """
    partitioning = Partitioning.parse(definition.partition_by)
    values = [one.column for one in partitioning.fields if not one.derived]
    opened = _open(definition, state, partitioning, note)
    if not values or definition.table.format == "iceberg":
        return opened
    from kafkapy.pipeline.formats.divided_format import DividedFormat

    return DividedFormat(opened, values)


def _open(
    definition: PipelineDefinition, state: State, partitioning: Partitioning, note: Callable[[str], None]
) -> Format:
    kind = definition.format.kind
    if kind == "json" and definition.format.schema is None:
        from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat

        hidden = definition.table.format == "iceberg"
        derived = () if hidden else (one.name for one in partitioning.derived)
        return InferredJsonFormat(state, definition.table.format, derived, note)
    if kind == "json":
        from kafkapy.pipeline.formats.json_format import JsonFormat

        return JsonFormat(definition.format)
    if kind == "avro":
        from kafkapy.pipeline.formats.avro_format import AvroFormat

        return AvroFormat(definition.format, state)
    if kind == "protobuf":
        from kafkapy.pipeline.formats.protobuf_format import ProtobufFormat

        return ProtobufFormat(definition.format)
    from kafkapy.pipeline.formats.raw_format import RawFormat

    return RawFormat()
