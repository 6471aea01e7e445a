"""Pipelines in Python.

Each method returns a new pipeline, and nothing is read or written before `run`:

Pipeline("orders").json(schema).upsert(key="id").to_delta("lake/orders").dead_letter("orders.dlq").run()
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkapy.pipeline.definition import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkapy.pipeline.audit.audit import AuditReport
    from kafkapy.pipeline.run.run import RunResult
    from kafkapy.pipeline.status import Status

Pathlike = str | os.PathLike[str]
Registered = str | Mapping[str, str]
"""A registry: its URL, or a mapping with `url` and settings of the client."""


class Pipeline:
    """A pipeline from `topic` to a table.

    Relative paths are relative to the current directory. Each method except `run`, `status` and `audit`
    returns a new pipeline. Those three build `definition`, which raises PipelineError for a mistake.

    Without `bootstrap`, the broker is that of the environment's KAFKAPY_BOOTSTRAP, or 127.0.0.1:9092.
    """

    def __init__(self, topic: str, *, bootstrap: str | None = None, name: str | None = None) -> None:
        bootstrap = bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
        self._values: dict[str, Any] = {"topic": topic, "bootstrap": bootstrap, "name": name}

    @classmethod
    def load(cls, path_or_table: Pathlike) -> Pipeline:
        """Loads the pipeline of a YAML file, or of a table that a pipeline has written."""
        return cls.of(PipelineDefinition.load(os.fspath(path_or_table)))

    @classmethod
    def of(cls, definition: PipelineDefinition) -> Pipeline:
        return cls(definition.topic)._with(**definition.to_mapping())

    def _with(self, **values: Any) -> Pipeline:
        further = Pipeline.__new__(Pipeline)
        further._values = {**self._values, **values}
        return further

    # -- how values are read

    def raw(self) -> Pipeline:
        """Keeps the bytes of values in one column `value`.

        This is the default.
        """
        return self._with(format="raw")

    def json(
        self,
        schema: Pathlike | None = None,
        *,
        rescued: str | None = None,
        changes: str | None = None,
        registry: Registered | None = None,
        subject: str | None = None,
    ) -> Pipeline:
        """Reads values as JSON.

        `schema` is a DDL, a schema in Spark's JSON form, a JSON Schema, or a file with one of these. None
        infers the schema from the records. `rescued` is the column of what no other column can hold.
        `changes` is "debezium", "maxwell", "canal" or "goldengate", if the values are changes of rows that
        have this schema. With a `registry`, the schema is the newest of `subject`, by default "TOPIC-value".
        """
        more = {"registry": registry, "subject": subject}
        return self._format("json", schema=schema, rescued=rescued, changes=changes, **more)

    def avro(
        self,
        schema: Pathlike | None = None,
        *,
        registry: Registered | None = None,
        schemas: Mapping[int, Pathlike] | None = None,
        changes: str | None = None,
    ) -> Pipeline:
        """Reads values as Avro.

        `schema` is the reader's schema. With a registry or with schemas by id, each value begins with the id
        of its writer's schema. `changes` is "debezium" or "maxwell", if the values are changes of rows.
        """
        return self._format("avro", schema=schema, registry=registry, schemas=schemas, changes=changes)

    def protobuf(
        self,
        descriptor: Pathlike | None = None,
        message: str | None = None,
        *,
        changes: str | None = None,
        registry: Registered | None = None,
        subject: str | None = None,
    ) -> Pipeline:
        """Reads values as Protobuf.

        `descriptor` is a descriptor set's file, `message` a full name in it. `changes` is "debezium" or
        "maxwell", if the values are changes of rows. Instead of a descriptor set, the schema may be the
        newest of `subject` in a registry, by default "TOPIC-value".
        """
        more = {"registry": registry, "subject": subject}
        return self._format("protobuf", schema=descriptor, message=message, changes=changes, **more)

    def _format(self, kind: str, **settings: Any) -> Pipeline:
        if isinstance(schemas := settings.get("schemas"), Mapping):
            settings["schemas"] = {number: os.fspath(schema) for number, schema in schemas.items()}
        if settings.get("schema") is not None:
            settings["schema"] = os.fspath(settings["schema"])
        given = {name: value for name, value in settings.items() if value}
        return self._with(format={"kind": kind, **given})

    def join(self, name: str, table: str, match: str | Sequence[str] | Mapping[str, str]) -> Pipeline:
        """Adds the row of another table that a record matches, as `name` in `select` and `where`.

        `table` is as `delta:lake/customers`, or `csv:FILE`. `match` is as `{"id": "customer_id"}`: columns of
        the table, and the expressions of the record that they equal. A record without a row has a null there.
        """
        joined = {"table": table, "match": dict(match) if isinstance(match, Mapping) else match}
        return self._with(join={**(self._values.get("join") or {}), name: joined})

    def select(self, *expressions: str) -> Pipeline:
        """Computes the columns of the table from those of the value, by SQL expressions.

        "*" are the columns of the value. Each other expression is one column, as "upper(name) AS name". They
        may use `_topic`, `_partition`, `_offset`, `_timestamp`, `_key` and `_headers` too.
        """
        return self._with(select=list(expressions))

    def where(self, condition: str) -> Pipeline:
        """Leaves out the records for which the SQL condition is not true."""
        return self._with(where=condition)

    # -- how rows are written

    def append(self) -> Pipeline:
        return self._with(mode="append", key=None, merge_mode=None)

    def upsert(self, key: str | Sequence[str] | None = None, *, merge_mode: str | None = None) -> Pipeline:
        """Keeps one row per key: the columns `key`, or the record key.

        A null value deletes the row. `merge_mode` is "copy-on-write" or "merge-on-read".
        """
        columns = key if key is None or isinstance(key, str) else list(key)
        return self._with(mode="upsert", key=columns, merge_mode=merge_mode)

    def partition_by(self, *columns: str) -> Pipeline:
        return self._with(partition_by=list(columns))

    def widen_types(self) -> Pipeline:
        """Lets a column get a wider type, such as BIGINT instead of INT."""
        return self._with(widen_types=True)

    def to_delta(
        self, location: Pathlike, *, state: Pathlike | None = None, files: Pathlike | None = None
    ) -> Pipeline:
        """Writes a Delta table at a path or URI.

        Or it is catalog.schema.table, with the folder of the pipeline's `state`, and that of the table's
        `files` if the catalog does not choose one.
        """
        return self._to("delta", location, state, files)

    def to_iceberg(
        self, location: Pathlike, *, state: Pathlike | None = None, files: Pathlike | None = None
    ) -> Pipeline:
        """Writes an Iceberg table at a path or URI.

        Or it is catalog.schema.table, with the folder of the pipeline's `state`, and that of the table's
        `files` if the catalog does not choose one.
        """
        return self._to("iceberg", location, state, files)

    def _to(self, kind: str, location: Pathlike, state: Pathlike | None, files: Pathlike | None) -> Pipeline:
        places = {"state": state, "files": files}
        given = {key: None if place is None else os.fspath(place) for key, place in places.items()}
        return self._with(table=f"{kind}:{os.fspath(location)}", **given)

    def to_parquet(self, location: Pathlike) -> Pipeline:
        return self._with(table=f"parquet:{os.fspath(location)}", state=None, files=None)

    def checkpoint(self, folder: Pathlike) -> Pipeline:
        """Keeps Spark's checkpoint in this folder, and not beside the table."""
        return self._with(checkpoint=os.fspath(folder))

    # -- how the topic is read

    def start(self, start: Any) -> Pipeline:
        """Sets the start: "earliest" (the default), "latest", a time or epoch milliseconds.

        A time is a datetime or an ISO timestamp.
        """
        return self._with(start=start)

    def dead_letter(self, topic: str) -> Pipeline:
        """Sends records that do not parse to this topic.

        Without it, such records stop the pipeline.
        """
        return self._with(dead_letter=topic)

    def max_dead_letters(self, most: int | str) -> Pipeline:
        """Ends a run that would send more: a number in a run, or a share of a batch such as "1%"."""
        return self._with(max_dead_letters=most)

    def group(self, group: str) -> Pipeline:
        """Commits the position as the offsets of this consumer group, for tools that show lag."""
        return self._with(group=group)

    def max_offsets_per_trigger(self, offsets: int) -> Pipeline:
        return self._with(max_offsets_per_trigger=offsets)

    def maintenance(self, *, within_run: bool = True, retain: str | None = None) -> Pipeline:
        """Sets whether a run merges small files and deletes old ones, which it does by default.

        `retain` is how long versions of the table stay readable, such as "12h".
        """
        return self._with(maintain=within_run, retain=retain)

    def limit(
        self,
        *,
        max_lag: int | None = None,
        max_batch_time: str | None = None,
        on_limit: str | None = None,
    ) -> Pipeline:
        """Ends a run that falls so many offsets behind, or whose batch takes longer ("10m").

        With `on_limit`, the run continues, and this command is called, also for `max_dead_letters`.
        """
        return self._with(max_lag=max_lag, max_batch_time=max_batch_time, on_limit=on_limit)

    def client_config(self, path: Pathlike) -> Pipeline:
        """Takes options of Kafka's clients from a file, as Kafka's tools do (--command-config)."""
        return self._with(client_config=os.fspath(path))

    def kafka(self, **options: str) -> Pipeline:
        """Sets options of the Java client, with '_' for '.': kafka(security_protocol="SSL")."""
        added = {name.replace("_", "."): value for name, value in options.items()}
        return self._with(kafka={**(self._values.get("kafka") or {}), **added})

    # -- what it is, and what it does

    @property
    def definition(self) -> PipelineDefinition:
        if "table" not in self._values:
            raise PipelineError(
                f"the pipeline of {self._values['topic']} has no table; add .to_delta(path), "
                ".to_iceberg(path) or .to_parquet(path)"
            )
        given = {name: value for name, value in self._values.items() if value is not None}
        return PipelineDefinition.from_mapping(given, folder=Path.cwd())

    def run(
        self,
        *,
        once: bool = False,
        every: str | None = None,
        spark: SparkSession | None = None,
        metrics: str | None = None,
    ) -> RunResult:
        """Writes the records that the topic has now (`once`), or continues until it is interrupted.

        Without `spark`, a session is created, and stopped at the end. `metrics` is the `[HOST:]PORT` at which
        Prometheus scrapes meanwhile.
        """
        from kafkapy.pipeline.run.run import run

        return run(self.definition, once=once, every=every, spark=spark, metrics=metrics)

    def status(self) -> Status:
        """How it is doing; a notebook draws it."""
        from kafkapy.pipeline.status import status_of

        return status_of(self.definition, with_recent=True)

    def audit(
        self,
        *,
        starting: str | None = None,
        ending: str | None = None,
        incremental: bool = False,
        spark: SparkSession | None = None,
    ) -> AuditReport:
        """Compares the table with the topic, offset by offset; a notebook draws the report.

        From `starting` to `ending`: "earliest", "latest", an ISO time or JSON offsets by partition.
        `incremental` compares only what came after the last such audit that was clean.
        """
        from kafkapy.pipeline.audit.audit import audit

        return audit(self.definition, spark, starting=starting, ending=ending, incremental=incremental)

    def __repr__(self) -> str:
        return f"<Pipeline {self._values['topic']} -> {self._values.get('table', 'no table yet')}>"
