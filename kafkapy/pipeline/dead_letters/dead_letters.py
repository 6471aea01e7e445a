"""Dead letters: records that could not become rows, kept in a topic with their errors.

A dead letter has the record's own key, value and headers, byte for byte, and further headers:

    kafkapy.error          the error; it completes "the record ..."
    kafkapy.source         TOPIC-PARTITION-OFFSET of the record
    kafkapy.timestamp      its timestamp, in milliseconds since 1970
    kafkapy.pipeline       the pipeline's name
    kafkapy.table-id       the pipeline's table: several pipelines, even with one name, may share a topic
    kafkapy.topic-id       the source topic's id: a recreated topic has other records at the same offsets;
                           absent if the broker has no topic ids
    kafkapy.schema-id      the id of the writer's schema, if the value carries one
    kafkapy.replayed-from  the source of the dead letter, if this record was replayed from one

Dead letters are written before the rows of their batch are committed, at least once. A batch that is run
again writes its dead letters again, and readers drop those whose source (with its topic id) they have seen. A
letter without table id or topic id is from a time before these headers; the pipeline's name identifies its
pipeline. Headers of the record that begin with `kafkapy.` belong to an earlier dead letter and are dropped.

A missing topic is created with one partition and without retention. It accepts records that are larger than
those of the source topic by the size of the headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import Incarnation
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX: Final = "kafkapy."
ERROR: Final = "kafkapy.error"
SOURCE: Final = "kafkapy.source"
TIMESTAMP: Final = "kafkapy.timestamp"
PIPELINE: Final = "kafkapy.pipeline"
TABLE_ID: Final = "kafkapy.table-id"
TOPIC_ID: Final = "kafkapy.topic-id"
SCHEMA_ID: Final = "kafkapy.schema-id"
REPLAYED_FROM: Final = "kafkapy.replayed-from"

_LONGEST_ERROR: Final = 1_000
_ROOM_FOR_HEADERS: Final = 65_536
# The broker's limit for one request (socket.request.max.bytes), so that the topic's max.message.bytes
# decides.
_LARGEST_REQUEST: Final = 104_857_600


def write_dead_letters(bad: DataFrame, definition: PipelineDefinition, incarnation: Incarnation) -> None:
    """Writes the records that have an `_error` of `Format.parse` to the dead-letter topic."""
    topic = definition.dead_letter
    assert topic is not None
    make_topic(Topics(definition.bootstrap, definition.kafka_options), definition)
    options = {
        **{f"kafka.{name}": value for name, value in definition.kafka_options.items()},
        "kafka.bootstrap.servers": definition.bootstrap,
        "kafka.acks": "all",
        # A topic's limit counts compressed bytes: a record that was produced compressed must stay compressed.
        "kafka.compression.type": "zstd",
        "kafka.max.request.size": str(_LARGEST_REQUEST),
        "kafka.buffer.memory": str(_LARGEST_REQUEST + (32 << 20)),
        "topic": topic,
    }
    letters = bad.select("key", "value", _headers(definition.name, incarnation).alias("headers"))
    try:
        letters.write.format("kafka").options(**options).save()
    except Exception as error:
        if "RecordTooLargeException" in str(error):
            raise PipelineError(
                f"{definition.name}: a dead letter is larger than {topic} takes; raise its max.message.bytes"
            ) from error
        raise


def make_topic(topics: Topics, definition: PipelineDefinition) -> None:
    """Creates the dead-letter topic if it is missing."""
    assert definition.dead_letter is not None
    if topics.exists(definition.dead_letter):
        return
    largest = int(topics.setting(definition.topic, "max.message.bytes"))
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(min(largest + _ROOM_FOR_HEADERS, 2**31 - 1)),
    }
    topics.create(definition.dead_letter, 1, settings)


def _headers(pipeline: str, incarnation: Incarnation) -> Column:
    from pyspark.sql import functions as f

    def header(name: str, value: Column) -> Column:
        return f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value"))

    given = f.coalesce("headers", f.expr("cast(array() AS array<struct<key: string, value: binary>>)"))
    replayed = f.get(f.filter(given, lambda one: one["key"] == SOURCE), f.lit(0))["value"]
    schema_id = f.col("_schema_id").cast("string")
    own = [
        header(ERROR, f.left("_error", f.lit(_LONGEST_ERROR))),
        header(SOURCE, f.concat_ws("-", "topic", "partition", "offset")),
        header(TIMESTAMP, f.unix_millis("timestamp").cast("string")),
        header(PIPELINE, f.lit(pipeline)),
        *(
            header(name, f.lit(value))
            for name, value in ((TABLE_ID, incarnation.table_id), (TOPIC_ID, incarnation.topic_id))
            if value is not None
        ),
        f.when(schema_id.isNotNull(), header(SCHEMA_ID, schema_id)),
        f.when(replayed.isNotNull(), f.struct(f.lit(REPLAYED_FROM).alias("key"), replayed.alias("value"))),
    ]
    carried = f.filter(given, lambda one: ~f.startswith(one["key"], f.lit(PREFIX)))
    return f.concat(carried, f.array_compact(f.array(*own)))
