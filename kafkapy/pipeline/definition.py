"""The definition of a pipeline: one topic, one table, and how records become rows.

In YAML, only `topic` and `table` are required:

    name: orders                        # default: the topic
    bootstrap: 127.0.0.1:9092
    topic: orders
    table: delta:lake/orders            # delta | iceberg | parquet, then a path, URI or catalog.schema.name
    state: lake/_orders                 # the folder of the state, for tables of a catalog only
    files: s3a://lake/orders            # the folder of the files, for new tables of a catalog only
    checkpoint: checkpoints             # folder or URI for Spark's checkpoint; default: beside the table
    format:                             # or one word: raw | json | avro | protobuf; default: raw
      kind: avro
      schema: order.avsc                # a file, or the schema itself
      registry: http://localhost:8081   # or url: and settings of the client, as basic.auth.user.info
      subject: orders-value             # JSON, Protobuf: of the newest schema; default: TOPIC-value
      schemas: {7: order_v1.avsc}       # by id, instead of a registry
      message: shop.Order               # Protobuf: the message in the descriptor set `schema`
      rescued: _rescued                 # JSON: the column of what no other column can hold
      changes: debezium                 # or maxwell, canal, goldengate: changes of rows with the schema
    join:                               # rows of other tables that select and where may name
      customers: {table: delta:lake/customers, match: {id: customer_id}}
    select: [id, "upper(name) AS name"] # SQL expressions, one for each column; default: those of the value
    where: amount > 0                   # leaves other records out
    mode: upsert                        # or append; default: by the topic's cleanup.policy
    key: id                             # columns to match by; default: the record key
    merge_mode: merge-on-read           # or copy-on-write, the default of Delta: how upserts change files
    partition_by: [day(timestamp)]
    widen_types: true                   # a column may get a wider type; default: false
    start: earliest                     # or latest, an ISO timestamp (default: UTC), epoch milliseconds
    dead_letter: orders.dlq
    max_dead_letters: 1%                # more of a batch (or more than this number in a run) end the run
    every: 30s                          # how often to look for records and write a batch; default: 1s
    group: orders-table                 # commit the position to this group, for lag tools
    max_offsets_per_trigger: 1000000
    maintain: false                     # the run merges no small files, deletes no old ones; default: true
    retain: 12h                         # how long versions of the table stay readable; default: 7d
    max_lag: 5000000                    # end the run if it falls so many offsets behind
    max_batch_time: 10m                 # end the run if a batch takes longer
    on_limit: notify --team data        # call this command at a limit, and continue
    client_config: client.properties    # options of clients, as Kafka's tools take them
    kafka: {security.protocol: SSL}     # further options, by the Java client's names
    spark: {spark.executor.memory: 4g}
    master: spark://host:7077

Values of `kafka` and `spark`, and the URL and settings of the registry, may refer to a secret instead of
containing it: ${NAME} is an environment variable, ${file:PATH} the content of a file (`secret_options.py`).

Relative paths are relative to the YAML file. A definition is checked on construction, as far as that is
possible without a broker and Spark. A mistake is reported in one line with the file, the key and the remedy.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kafkapy.pipeline.client_options import OF_THE_PIPELINE, misspelt, read_client_config
from kafkapy.pipeline.dead_letter_limit import DeadLetterLimit
from kafkapy.pipeline.fields import Fields, seconds, shown, timestamp_ms, within, words
from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.join_definition import JoinedTable, parse_joins
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean
from kafkapy.pipeline.secret_options import (
    check_references,
    kept,
    kept_url,
    redacted,
    resolved,
    secrets_of,
    with_absolute_files,
)
from kafkapy.pipeline.state_folder import StateFolder
from kafkapy.pipeline.table_target import TABLE_FORMATS, TableTarget, absolute, is_in_a_catalog
from kafkapy.pipeline.tables.partitioning import Partitioning
from kafkapy.protocol.topic_names import why_invalid

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "KAFKAPY_BOOTSTRAP"  # of the environment; a YAML file names its broker itself
MODES: Final = ("append", "upsert")
MERGE_MODES: Final = ("copy-on-write", "merge-on-read")
STARTS: Final = ("earliest", "latest")

DEFAULT_RETAIN: Final = "7d"
_FLAGS: Final = {"widen_types": False, "maintain": True}  # with their defaults
_KEPT: Final = "pipeline.yaml"
_ADDRESSES = re.compile(r"[^\s,:/]+:\d+|\[[^\s\]]+\]:\d+")
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class PipelineDefinition:
    """A checked definition.

    The head of this file explains each field.
    """

    topic: str
    table: TableTarget
    name: str = ""
    bootstrap: str = DEFAULT_BOOTSTRAP
    checkpoint: str | None = None
    format: FormatDefinition = field(default_factory=FormatDefinition)
    join: tuple[JoinedTable, ...] = ()
    select: tuple[str, ...] = ()
    where: str | None = None
    mode: str | None = None
    key: tuple[str, ...] = ()
    merge_mode: str | None = None
    partition_by: tuple[str, ...] = ()
    widen_types: bool = False
    start: str = "earliest"
    dead_letter: str | None = None
    max_dead_letters: int | str | None = None
    every: str | None = None
    group: str | None = None
    max_offsets_per_trigger: int | None = None
    maintain: bool = True
    retain: str | None = None
    max_lag: int | None = None
    max_batch_time: str | None = None
    on_limit: str | None = None
    client_config: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.topic)
        if reason := why_invalid(self.topic):
            raise PipelineError(f"topic: {reason}")
        if not _NAME.fullmatch(self.name):
            raise PipelineError(f"name: {self.name!r} may contain only letters, digits, '.', '_' and '-'")
        for address in self.bootstrap.split(","):
            if not _ADDRESSES.fullmatch(address.strip()):
                raise PipelineError(f"bootstrap: expected HOST:PORT[,HOST:PORT], not {shown(self.bootstrap)}")
        self._check_mode()
        if self.format.changes in ("canal", "goldengate") and not self.key:
            raise PipelineError(
                f"key: records of {self.format.changes} need not have the key of the row; name columns of "
                "the row: key: id"
            )
        if self.format.has_several_rows:
            self._check_several_rows()
        if self.join and not self.select and self.where is None:
            raise PipelineError(
                "join: neither select nor where names anything of it; add them, or leave it out"
            )
        if self.partition_by:
            Partitioning.parse(self.partition_by)
        if self.widen_types:
            self._check_widening()
        if self.start not in STARTS:
            within("start", timestamp_ms, self.start)
        if self.every is not None:
            within("every", seconds, self.every)
        if self.retain is not None:
            within("retain", seconds, self.retain)
        if self.max_batch_time is not None:
            within("max_batch_time", seconds, self.max_batch_time)
        if self.on_limit is not None:
            if self.max_lag is None and self.max_batch_time is None and self.max_dead_letters is None:
                raise PipelineError(
                    "on_limit: there is no limit; set max_lag, max_batch_time or max_dead_letters"
                )
            within("on_limit", words, self.on_limit)
        if self.dead_letter is not None:
            if reason := why_invalid(self.dead_letter):
                raise PipelineError(f"dead_letter: {reason}")
            if self.dead_letter == self.topic:
                raise PipelineError(f"dead_letter: is the topic itself; for example {self.topic}.dlq")
        if self.max_dead_letters is not None:
            if self.dead_letter is None:
                raise PipelineError(
                    "max_dead_letters: counts dead letters, and there is no dead_letter: topic, so the first "
                    f"ends the run already; for example dead_letter: {self.topic}.dlq"
                )
            within("max_dead_letters", DeadLetterLimit.parse, str(self.max_dead_letters))
        for option in self.kafka:
            if option.startswith("kafka."):
                raise PipelineError(f"kafka.{option}: write it without 'kafka.': {option[6:]}")
            if option in OF_THE_PIPELINE:
                raise PipelineError(f"kafka.{option}: cannot be set here; {OF_THE_PIPELINE[option]}")
            if meant := misspelt(option):
                raise PipelineError(f"kafka.{option}: unknown option (did you mean '{meant}'?)")
        for option in self.spark:
            if not option.startswith("spark."):
                raise PipelineError(f"spark.{option}: Spark's options begin with 'spark.'")
        for option, value in self.kafka.items():
            check_references(f"kafka.{option}", value)
        for option, value in self.spark.items():
            check_references(option, value)

    def _check_mode(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            raise PipelineError(
                f"mode: unknown mode {self.mode!r}{did_you_mean(self.mode, MODES)}; "
                f"expected {' or '.join(MODES)}"
            )
        if self.mode == "append" and self.format.changes:
            raise PipelineError(
                "mode: changes of rows are upserted; leave it out, or leave out format.changes to append "
                "each change as it was sent"
            )
        if self.mode == "append" and self.key:
            raise PipelineError("key: has no effect with mode append; leave it out or use mode upsert")
        if self.merge_mode is not None and self.merge_mode not in MERGE_MODES:
            raise PipelineError(
                f"merge_mode: unknown mode {self.merge_mode!r}{did_you_mean(self.merge_mode, MERGE_MODES)}; "
                f"expected {' or '.join(MERGE_MODES)}"
            )
        if self.merge_mode is not None and (self.mode == "append" or self.table.format == "parquet"):
            raise PipelineError("merge_mode: has no effect on appends; leave it out or use mode upsert")
        if self.table.format == "parquet" and (self.mode == "upsert" or self.key or self.format.changes):
            raise PipelineError(
                "table: Parquet files cannot be upserted into; use delta:PATH or iceberg:PATH, or mode append"
            )

    def _check_several_rows(self) -> None:
        kind = self.format.changes
        if self.select or self.where is not None:
            raise PipelineError(
                f"{'select' if self.select else 'where'}: a record of {kind} may have several rows, and "
                "those of one record stay together; leave it out, or query the table"
            )
        if self.table.format == "delta" and any(
            not one.derived for one in Partitioning.parse(self.partition_by).fields
        ):
            raise PipelineError(
                f"partition_by: a record of {kind} may have several rows, and a Delta table cannot be "
                "divided by each of their values; write iceberg:PATH, or divide by a bucket or a time"
            )

    def _check_widening(self) -> None:
        kind = self.format
        if self.table.format == "parquet":
            raise PipelineError(
                "widen_types: the files of a Parquet table keep their types, and readers take those of one "
                "for all; write delta:PATH or iceberg:PATH, or leave it out"
            )
        inferred = kind.kind == "json" and kind.schema is None and kind.registry is None
        if inferred and self.table.format == "iceberg":
            raise PipelineError(
                "widen_types: Iceberg cannot change a BIGINT to a DECIMAL, and inferred columns need no "
                "other change; give the format a schema, or write delta:PATH"
            )
        if inferred and kind.changes is not None and self.key:
            raise PipelineError(
                "widen_types: of inferred changes, the key columns of a delete could get other types than "
                "those of the row; give the format a schema, or leave key out"
            )
        if inferred and kind.rescued is not None:
            raise PipelineError(
                "widen_types: of inferred JSON, values that do not fit their column are rescued, and none "
                "is left to change its type; leave out format.rescued, or give the format a schema"
            )

    def mode_for(self, cleanup_policy: Collection[str]) -> str:
        """The mode of the definition, or else the one that the topic's cleanup.policy implies."""
        upserts = self.key or self.format.changes or "compact" in cleanup_policy
        mode = self.mode or ("upsert" if upserts else "append")
        if mode == "upsert" and self.table.format == "parquet":
            raise PipelineError(
                f"{self.name}: the topic {self.topic} is compacted, and Parquet files cannot be upserted "
                "into; use delta:PATH or iceberg:PATH, or mode append"
            )
        if self.format.changes and self.key and "compact" in cleanup_policy:
            raise PipelineError(
                f"{self.name}: key: the topic {self.topic} is compacted, and what is left there of a deleted "
                "row has the record's key alone; leave key out, and rows are matched by the record's key"
            )
        return mode

    @property
    def lakes(self) -> list[str]:
        """The table formats that Spark needs jars for, also those of joined tables."""
        formats = {self.table.format, *(one.format for one in self.join)}
        return sorted(formats.difference(("parquet", "csv")))

    @property
    def dead_letter_limit(self) -> DeadLetterLimit | None:
        return None if self.max_dead_letters is None else DeadLetterLimit.parse(str(self.max_dead_letters))

    @property
    def kafka_options(self) -> dict[str, str]:
        """The options of `client_config` and `kafka` with their secrets."""
        return {option: resolved(f"kafka.{option}", value) for option, value in self._client_options.items()}

    @property
    def _client_options(self) -> dict[str, str]:
        file = {} if self.client_config is None else read_client_config(Path(self.client_config))
        return {**file, **self.kafka}

    @property
    def spark_options(self) -> dict[str, str]:
        """The options of `spark` with their secrets."""
        return {option: resolved(option, value) for option, value in self.spark.items()}

    def redacted(self, text: str) -> str:
        """A message of another program, which may quote an option, with the secrets removed."""
        try:
            options = self._client_options
        except PipelineError:  # the file is gone, and nothing in it was used
            options = dict(self.kafka)
        return redacted(
            text, secrets_of({**options, **self.spark, **self.format.registry_settings}, self.format.registry)
        )

    def without_secrets(self) -> PipelineDefinition:
        """The definition as it is stored: without secrets, but with references to them."""
        registry = None if self.format.registry is None else kept_url(self.format.registry)
        settings = kept(self.format.registry_settings)
        kind = dataclasses.replace(self.format, registry=registry, registry_settings=settings)
        return dataclasses.replace(self, format=kind, kafka=kept(self.kafka), spark=kept(self.spark))

    @property
    def every_seconds(self) -> float | None:
        return None if self.every is None else seconds(self.every)

    @property
    def retained(self) -> timedelta:
        """How long versions of the table stay readable."""
        return timedelta(seconds=seconds(self.retain or DEFAULT_RETAIN))

    @property
    def max_batch_seconds(self) -> float | None:
        return None if self.max_batch_time is None else seconds(self.max_batch_time)

    @property
    def limit_command(self) -> list[str] | None:
        """The words of the command `on_limit`."""
        return None if self.on_limit is None else words(self.on_limit)

    @property
    def start_ms(self) -> int | None:
        """The time to start at, in milliseconds since 1970; None for earliest and latest."""
        return None if self.start in STARTS else timestamp_ms(self.start)

    @classmethod
    def load(cls, path_or_table: str | Path) -> PipelineDefinition:
        """Loads a YAML file, or the definition stored with a table.

        A table is named by its path (`PATH` or `delta:PATH`), by that of the folder of its state, or by its
        name in a catalog, which Spark is asked for.
        """
        text = str(path_or_table)
        path = Path(text)
        if path.is_file():
            return cls.from_yaml(path)
        kind, _, rest = text.partition(":")
        location = rest if kind in TABLE_FORMATS else text
        if path.suffix in (".yaml", ".yml") and not path.is_dir():
            near = did_you_mean(path.name, [one.name for one in path.parent.glob("*.y*ml")])
            raise PipelineError(f"{text}: no such file{near}; make one with kafkapy pipeline create")
        if is_in_a_catalog(location):
            from kafkapy.pipeline.tables.catalog_table import state_of_table

            folder = state_of_table(text, location, kind if location == rest else None)
        else:
            folder = StateFolder(absolute(location, Path.cwd()))
        definition = cls.kept_in(folder)
        if definition is None:
            raise PipelineError(
                f"{text}: neither a pipeline's YAML file nor a table that a pipeline has written "
                f"(no {folder.FOLDER}/{_KEPT} in it)"
            )
        return definition

    @classmethod
    def kept_in(cls, folder: StateFolder) -> PipelineDefinition | None:
        """The definition that `keep_in` has stored, with absolute paths; None before the first run."""
        text = folder.read_text(_KEPT)
        if text is None:
            return None
        return cls.parse(text, source=f"{folder.location}/{folder.FOLDER}/{_KEPT}")

    def keep_in(self, folder: StateFolder) -> None:
        """Stores the definition beside the table, without secrets."""
        folder.write_text(_KEPT, self.without_secrets().to_yaml())

    @classmethod
    def from_yaml(cls, path: Path) -> PipelineDefinition:
        return cls.parse(cls.text_of(path), source=str(path), folder=path.absolute().parent)

    @staticmethod
    def text_of(path: Path) -> str:
        """The text of a YAML file."""
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"{path}: cannot be read: {error}") from None

    @classmethod
    def parse(cls, text: str, *, source: str, folder: Path | None = None) -> PipelineDefinition:
        """Parses YAML text.

        Messages call it `source`.
        """
        from kafkapy.pipeline.yaml_text import load

        mapping = load(text, source)
        return cls.from_mapping(mapping, source=source, folder=folder)

    @classmethod
    def from_mapping(
        cls, mapping: object, *, source: str = "pipeline", folder: Path | None = None
    ) -> PipelineDefinition:
        """Builds a definition.

        Relative paths are resolved against `folder`, if it is given.
        """
        if isinstance(mapping, Mapping) and is_of_many(mapping):
            raise PipelineError(
                f"{source}: has many pipelines, which only run and status take at once; name one by its table"
            )
        try:
            return cls._from_fields(mapping, folder)
        except PipelineError as error:
            raise PipelineError(f"{source}: {error}") from None

    @classmethod
    def _from_fields(cls, mapping: object, folder: Path | None) -> PipelineDefinition:
        fields = Fields(mapping, [*(one.name for one in dataclasses.fields(cls)), "state", "files"])
        assert isinstance(mapping, Mapping)
        return cls(
            topic=fields.required("topic", "orders"),
            table=TableTarget.parse(
                fields.required("table", "delta:lake/orders"),
                folder,
                fields.text("state"),
                fields.text("files"),
            ),
            name=fields.text("name") or "",
            bootstrap=fields.text("bootstrap") or DEFAULT_BOOTSTRAP,
            checkpoint=_place(fields.text("checkpoint"), folder),
            format=FormatDefinition.from_value(mapping.get("format") or "raw", folder),
            join=parse_joins(mapping.get("join"), folder),
            select=fields.names("select"),
            where=fields.text("where"),
            mode=fields.text("mode"),
            key=fields.names("key"),
            merge_mode=fields.text("merge_mode"),
            partition_by=_divisions(fields),
            widen_types=fields.flag("widen_types"),
            start=fields.time("start") or "earliest",
            dead_letter=fields.text("dead_letter"),
            max_dead_letters=_number_or_share(fields.text("max_dead_letters")),
            every=fields.text("every"),
            group=fields.text("group"),
            max_offsets_per_trigger=fields.positive("max_offsets_per_trigger"),
            maintain=fields.flag("maintain", default=True),
            retain=fields.text("retain"),
            max_lag=fields.positive("max_lag"),
            max_batch_time=fields.text("max_batch_time"),
            on_limit=fields.text("on_limit"),
            client_config=_place(fields.text("client_config"), folder),
            kafka=_options(fields, "kafka", folder),
            spark=_options(fields, "spark", folder),
            master=fields.text("master"),
        )

    def to_mapping(self) -> dict[str, Any]:
        """The mapping for `from_mapping`, without the keys that have their default values."""
        values: dict[str, Any] = {"name": self.name, "bootstrap": self.bootstrap, "topic": self.topic}
        values["table"] = str(self.table)
        if self.table.state is not None:
            values["state"] = self.table.state
        if self.table.files is not None:
            values["files"] = self.table.files
        values["format"] = self.format.value()
        if self.join:
            values["join"] = {one.name: one.to_mapping() for one in self.join}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if one.name not in values and value not in (None, (), {}) and value is not _FLAGS.get(one.name):
                values[one.name] = _plain(value)
        return values

    def to_yaml(self) -> str:
        from kafkapy.pipeline.yaml_text import dump

        return dump(self.to_mapping())


def is_of_many(mapping: Mapping[str, Any]) -> bool:
    """Whether a file's mapping is of many pipelines (`pipelines_file.py`)."""
    return "pipelines" in mapping or "topics" in mapping


def _place(text: str | None, folder: Path | None) -> str | None:
    return None if text is None else absolute(text.rstrip("/") or "/", folder)


def _options(fields: Fields, key: str, folder: Path | None) -> dict[str, str]:
    return {name: with_absolute_files(value, folder) for name, value in fields.options(key).items()}


def _divisions(fields: Fields) -> tuple[str, ...]:
    texts = fields.names("partition_by")
    for text in texts:
        if re.fullmatch(r"\w+\s*\([^)`]*", text):
            joined = ", ".join(texts[texts.index(text) :][:2])
            raise PipelineError(
                f"partition_by: YAML split {text!r} at a comma; put it in quotes: ['{joined}']"
            )
    return texts


def _number_or_share(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value)
    return dict(value) if isinstance(value, Mapping) else value
