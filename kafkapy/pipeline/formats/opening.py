"""Opens the format of a pipeline.

Only the module of that format is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import OWN_COLUMNS
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables.partitioning import Partitioning
from kafkapy.pipeline.tables.reserved_names import RESERVED

if TYPE_CHECKING:
    from kafkapy.pipeline.formats.changes.envelope import Envelope


def open_format(
    definition: PipelineDefinition, state: State, note: Callable[[str], None] = lambda _: None
) -> Format:
    """The format of a pipeline; schemas that it finds in the records are kept in `state`.

    `note` is called with what it inferred.
    """
    partitioning = Partitioning.parse(definition.partition_by)
    values = [one.column for one in partitioning.fields if not one.derived]
    # Iceberg hides the columns that it makes of others, to be partitioned by them.
    table_format = definition.table.format
    derived = () if table_format == "iceberg" else (one.name.lower() for one in partitioning.derived)
    taken = RESERVED[table_format].union(OWN_COLUMNS, derived)
    opened = _open(definition, state, taken, note)
    if definition.select or definition.where:
        from kafkapy.pipeline.formats.transforms.transform_format import TransformFormat

        opened = TransformFormat(
            opened, definition.select, definition.where, definition.key, taken, definition.join
        )
    if not values or table_format == "iceberg":
        return opened
    from kafkapy.pipeline.formats.divided_format import DividedFormat

    return DividedFormat(opened, values)


def _open(
    definition: PipelineDefinition, state: State, taken: frozenset[str], note: Callable[[str], None]
) -> Format:
    """The format of the rows; `taken` are the names that the table has for itself."""
    if definition.format.changes is None:
        return _open_values(definition, state, taken, note, None)
    if definition.format.changes == "canal":
        from kafkapy.pipeline.formats.changes.canal_format import CanalFormat
        from kafkapy.pipeline.formats.json_format import JsonFormat

        return CanalFormat(JsonFormat(definition.format, topic=definition.topic), definition.key, taken)
    from kafkapy.pipeline.formats.changes.change_format import ChangeFormat
    from kafkapy.pipeline.formats.changes.envelope import ENVELOPES

    envelope = ENVELOPES[definition.format.changes]
    if not definition.key:
        envelope = envelope.without_former()
    inner = _open_values(definition, state, taken, note, envelope)
    if definition.format.changes == "goldengate":
        from kafkapy.pipeline.formats.changes.whole_rows import WholeRowsFormat

        inner = WholeRowsFormat(inner, envelope, definition.key)
    return ChangeFormat(inner, envelope, taken, by_columns=bool(definition.key))


def _open_values(
    definition: PipelineDefinition,
    state: State,
    taken: frozenset[str],
    note: Callable[[str], None],
    envelope: Envelope | None,
) -> Format:
    kind, table_format = definition.format.kind, definition.table.format
    rescued, keys = definition.format.rescued, definition.key
    if rescued is not None and rescued.lower() in taken:
        raise PipelineError(f"format.rescued: {rescued} is a column of the table's own; name another")
    if kind == "json" and definition.format.schema is None and definition.format.registry is None:
        from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat

        return InferredJsonFormat(
            state,
            table_format,
            taken,
            note,
            rescued,
            keys,
            widen_types=definition.widen_types,
            envelope=envelope,
        )
    if kind == "json":
        from kafkapy.pipeline.formats.json_format import JsonFormat

        return JsonFormat(definition.format, keys, envelope, definition.topic)
    if kind == "avro":
        from kafkapy.pipeline.formats.avro_format import AvroFormat

        return AvroFormat(definition.format, state, taken)
    if kind == "protobuf":
        from kafkapy.pipeline.formats.protobuf_format import ProtobufFormat

        return ProtobufFormat(definition.format, definition.topic)
    from kafkapy.pipeline.formats.raw_format import RawFormat

    return RawFormat()
