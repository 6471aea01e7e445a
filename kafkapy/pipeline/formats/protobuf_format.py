"""Protobuf by a descriptor set, bare or in the registry's framing.

Values are decoded in Python on Spark's executors, so no jar is needed. The executors need kafkapy, protobuf
and pyarrow.

The schema evolves by a newer descriptor set. Added fields become new columns. Fields that a record lacks are
null or have their default.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.protobuf_columns import protobuf_columns
from kafkapy.pipeline.formats.protobuf_descriptors import descriptor_of, joined_files, message_class
from kafkapy.pipeline.formats.registry import registered_schema
from kafkapy.pipeline.formats.schema_text import schema_bytes
from kafkapy.pipeline.formats.spark_types import Struct
from kafkapy.pipeline.map_in_arrow import map_in_arrow
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ProtobufFormat(Format):
    def __init__(self, definition: FormatDefinition, topic: str = "") -> None:
        """Without a descriptor set, the schema is that of the registry for the values of `topic`."""
        self._definition, self._topic, self._message = definition, topic, definition.message

    def check(self) -> None:
        self._columns  # noqa: B018 - reads and checks it

    @functools.cached_property
    def _descriptor_set(self) -> bytes:
        return descriptor_set(self._definition, self._topic)

    @functools.cached_property
    def _columns(self) -> Struct:
        content = self._descriptor_set  # names the file itself, should it not be there
        try:
            return protobuf_columns(descriptor_of(message_class(content, self._message)))
        except PipelineError as error:
            source = self._definition.schema or f"the schema of {self._definition.registry}"
            raise PipelineError(f"{source}: {error}") from None

    @property
    def columns(self) -> Struct:
        return self._columns

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        from kafkapy.pipeline.formats.protobuf_decoder import decode_batches

        added = [
            StructField("_data", StructType.fromJson(self._columns)),
            StructField("_error", StringType()),
            StructField("_schema_id", LongType()),
        ]
        decode = functools.partial(decode_batches, self._descriptor_set, self._message)
        return map_in_arrow(records, decode, StructType([*records.schema.fields, *added]))


def descriptor_set(definition: FormatDefinition, topic: str) -> bytes:
    """The descriptor set of a definition.

    It is its file, or the registry's newest schema for the values of the topic.
    """
    if definition.schema is not None:
        return schema_bytes(definition.schema)
    registered, subject = registered_schema(definition, topic, "PROTOBUF", form="serialized")
    return joined_files({**registered.references, f"{subject}.proto": registered.text})
