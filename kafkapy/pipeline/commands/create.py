"""`kafkapy pipeline create TOPIC --to FORMAT:PATH`"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from kafkapy.pipeline.definition import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    MERGE_MODES,
    MODES,
    PipelineDefinition,
)
from kafkapy.pipeline.format_definition import FORMAT_KINDS
from kafkapy.pipeline.pipeline_error import PipelineError


@click.command()
@click.argument("topic")
@click.option(
    "--to",
    "table",
    metavar="FORMAT:PATH",
    required=True,
    help="delta:, iceberg: or parquet:PATH, or a catalog's.",
)
@click.option("--state", metavar="FOLDER", help="The folder of the state, for a table of a catalog.")
@click.option("--files", metavar="FOLDER", help="The folder of the files, for a new table of a catalog.")
@click.option(
    "--checkpoint", metavar="FOLDER", help="The folder of Spark's checkpoint; default: beside the table."
)
@click.option("--format", "kind", type=click.Choice(FORMAT_KINDS), default="raw", show_default=True)
@click.option(
    "--schema",
    metavar="FILE",
    help="Schema of JSON (default: inferred) or Avro, or a Protobuf descriptor set.",
)
@click.option("--rescued", metavar="COLUMN", help="The column of what no other column can hold, for JSON.")
@click.option("--message", metavar="NAME", help="The Protobuf message in the descriptor set.")
@click.option("--registry", metavar="URL", help="The schema registry that has the schemas.")
@click.option("--mode", type=click.Choice(MODES), help="Default: upsert if the topic is compacted.")
@click.option(
    "--key", metavar="COLUMN", multiple=True, help="Key column of upserts; default: the record key."
)
@click.option("--merge-mode", type=click.Choice(MERGE_MODES), help="How upserts change the table's files.")
@click.option(
    "--partition-by",
    metavar="EXPR",
    multiple=True,
    help="A column, or a transform such as 'day(timestamp)', the record's time.",
)
@click.option("--widen-types", is_flag=True, default=None, help="Let a column get a wider type.")
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIME",
    default="earliest",
    show_default=True,
    help="Where the first run begins; TIME is ISO or milliseconds.",
)
@click.option(
    "--dead-letter", metavar="TOPIC", help="Where to send records that do not parse; default: stop."
)
@click.option(
    "--max-dead-letters",
    metavar="N|N%",
    help="End a run with more dead letters: a number in the run, or a share of a batch.",
)
@click.option("--every", metavar="TIME", help="How often to write a batch, for example 30s.")
@click.option("--group", metavar="NAME", help="Publish the position as this consumer group, for lag tools.")
@click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    default=DEFAULT_BOOTSTRAP,
    envvar=BOOTSTRAP_VARIABLE,
    show_default=True,
    show_envvar=True,
)
@click.option(
    "--command-config",
    "client_config",
    metavar="FILE",
    help="Options of Kafka's clients, as Kafka's tools take them.",
)
@click.option("--name", metavar="NAME", help="Name of the pipeline and its file; default: the topic.")
@click.option("--file", type=click.Path(path_type=Path), help="Write FILE instead of NAME.yaml.")
def create(topic: str, kind: str, file: Path | None, name: str | None, **given: Any) -> None:
    """Write the YAML file of a pipeline from TOPIC to a table.

    Checks the broker, the topic, the schema and the mode first. Never overwrites a file.
    """
    schema = {key: value for key in ("schema", "rescued", "message", "registry") if (value := given.pop(key))}
    values = {"topic": topic, "name": name or topic, "format": {"kind": kind, **schema}, **given}
    file = file or Path(f"{name or topic}.yaml")
    elsewhere = file.absolute().parent != Path.cwd()
    asked = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    if file.exists():
        raise PipelineError(f"{file} exists already; remove it, or name another with --file")
    # Paths in the file are relative to the file: they are stored as given only if that means the same.
    definition = PipelineDefinition.from_mapping(asked, source="create", folder=Path.cwd())
    click.echo(f"{definition.topic} {_check(definition)} -> {definition.table}")
    written = definition if elsewhere else PipelineDefinition.from_mapping(asked)
    readable = 0o644 if written == written.without_secrets() else 0o600
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, readable)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(written.to_yaml())
    except OSError as error:
        raise PipelineError(f"{file}: cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {file}. Next: kafkapy pipeline run {shlex.quote(str(file))} --once")


def _check(definition: PipelineDefinition) -> str:
    """Checks what can be checked without Spark, and describes the topic.

    Raises PipelineError.
    """
    from kafkapy.pipeline.formats import open_format
    from kafkapy.pipeline.state import State
    from kafkapy.pipeline.tables import check_location
    from kafkapy.pipeline.topics import Topics

    state = State.of(definition)
    check_location(definition.table, state.store)
    open_format(definition, state).check()
    topics = Topics(definition.bootstrap, definition.kafka_options)
    partitions = topics.partitions(definition.topic)
    policy = topics.cleanup_policy(definition.topic)
    mode = definition.mode_for(policy)
    return f"({len(partitions)} partitions, cleanup.policy={','.join(sorted(policy))}, {mode})"
