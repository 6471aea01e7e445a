"""Dead letters: records that could not become rows, kept in a topic with their errors.

A dead letter has the record's own key, value and headers, byte for byte, and further headers:

    kafkapy.error          why: completes "the record ..."
    kafkapy.source         TOPIC-PARTITION-OFFSET of the record
    kafkapy.timestamp      its timestamp, in milliseconds since 1970
    kafkapy.pipeline       the pipeline's name
    kafkapy.table-id       whose it is: several pipelines, even of one name, may share a dead-letter topic
    kafkapy.topic-id       which topic of that name the source is in: one created anew has other records
                           there; left out where brokers have no such ids
    kafkapy.schema-id      the id of the writer's schema, where the value carries one
    kafkapy.replayed-from  the source of the dead letter that was replayed as this record, if it was

They are written before the rows of their batch are committed, at least once: a batch that is run again
writes its dead letters again, and readers drop those whose source they have seen, topic id included. A letter
without table id or topic id was written before there were such headers, and counts as one of the pipeline
that bears its name. Headers of the record that begin with `kafkapy.` come from an earlier life as a dead
letter and are not carried on.

The topic is made when it is missing: one partition, nothing expires, and records may be larger than in the
source topic by the headers' size.
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
# What a broker takes in one request (socket.request.max.bytes); the topic's max.message.bytes decides.
_LARGEST_REQUEST: Final = 104_857_600


def write_dead_letters(bad: DataFrame, definition: PipelineDefinition, incarnation: Incarnation) -> None:
    """Writes records of which `Format.parse` has told an `_error` to the dead-letter topic."""
    topic = definition.dead_letter
    assert topic is not None
    make_topic(Topics(definition.bootstrap, definition.kafka_options), definition)
    options = {
        **{f"kafka.{name}": value for name, value in definition.kafka_options.items()},
        "kafka.bootstrap.servers": definition.bootstrap,
        "kafka.acks": "all",
        # The limit of a topic counts compressed bytes: what came in compressed must go out compressed.
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
    """The dead-letter topic, unless it is there."""
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
