"""Definitions: how a file is read, and the errors of a wrong one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError
from kafkapy.pipeline.fields import seconds, timestamp_ms
from kafkapy.pipeline.format_definition import is_schema_file
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget

FULL = """\
name: orders-table
bootstrap: broker-1:9092,broker-2:9092
topic: orders
table: delta:lake/orders
checkpoint: checkpoints
format:
  kind: avro
  schema: order.avsc
  schemas: {7: old.avsc}
select: ["*", "upper(name) AS name, shop"]
where: amount > 0 AND shop <> 'x'
mode: upsert
key: [id, shop]
merge_mode: merge-on-read
partition_by: day(timestamp)
widen_types: true
start: 2025-01-31T12:00:00Z
dead_letter: orders.dlq
max_dead_letters: 1%
every: 30s
group: orders-table
max_offsets_per_trigger: 1000
maintain: false
retain: 12h
max_lag: 50000
max_batch_time: 10m
on_limit: notify "the team"
kafka: {security.protocol: SSL, request.timeout.ms: 1000}
spark: {spark.executor.memory: 4g}
master: spark://host:7077
"""
LETTERS = {"dead_letter": "orders.dlq"}


def parse(text: str) -> PipelineDefinition:
    return PipelineDefinition.parse(text, source="orders.yaml")


def minimal(**values: Any) -> PipelineDefinition:
    return PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "delta:lake/orders", **values}, source="orders.yaml"
    )


def test_a_topic_and_a_table_are_enough() -> None:
    definition = parse("topic: orders\ntable: delta:lake/orders")
    assert (definition.name, definition.bootstrap) == ("orders", "127.0.0.1:9092")
    assert definition.table == TableTarget(format="delta", location="lake/orders")
    assert (definition.format.kind, definition.mode, definition.start) == ("raw", None, "earliest")


def test_everything_that_can_be_said_is_read_and_written_again() -> None:
    definition = parse(FULL)
    assert definition.key == ("id", "shop")
    assert definition.select == ("*", "upper(name) AS name, shop")
    assert definition.where == "amount > 0 AND shop <> 'x'"
    assert definition.merge_mode == "merge-on-read"
    assert definition.partition_by == ("day(timestamp)",)
    assert definition.start_ms == 1738324800000
    assert definition.every_seconds == 30
    assert (definition.max_lag, definition.max_batch_seconds) == (50_000, 600)
    assert definition.limit_command == ["notify", "the team"]
    assert definition.kafka == {"security.protocol": "SSL", "request.timeout.ms": "1000"}
    assert definition.format.schemas == {7: "old.avsc"}
    assert parse(definition.to_yaml()) == definition
    assert parse(minimal().to_yaml()) == minimal()


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(FULL)
    definition = PipelineDefinition.load(path)
    assert definition.table.location == str(tmp_path / "lake/orders")
    assert definition.checkpoint == str(tmp_path / "checkpoints")
    assert definition.format.schema == str(tmp_path / "order.avsc")
    assert definition.format.schemas == {7: str(tmp_path / "old.avsc")}


@pytest.mark.parametrize("uri", ["s3a://bucket/orders", "hdfs://name:8020/orders", "abfss://c@a.example/o"])
def test_a_uri_stays_as_it_is(uri: str, tmp_path: Path) -> None:
    target = TableTarget.parse(f"iceberg:{uri}", tmp_path)
    assert (target.location, target.local_path) == (uri, None)


def test_a_file_uri_is_a_path(tmp_path: Path) -> None:
    target = TableTarget.parse("delta:file:///lake/orders", tmp_path)
    assert (target.location, target.local_path) == ("file:///lake/orders", Path("/lake/orders"))


@pytest.mark.parametrize("name", ["db.orders", "orders.v1"])
def test_a_name_without_a_catalog_is_not_taken_for_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=rf"iceberg:spark_catalog\.{name}, or iceberg:\./{name} for a folder"
    ):
        TableTarget.parse(f"iceberg:{name}", tmp_path)
    assert TableTarget.parse(f"iceberg:./{name}", tmp_path).location == str(tmp_path / name)
    (tmp_path / name).mkdir()
    assert TableTarget.parse(f"iceberg:{name}", tmp_path).location == str(tmp_path / name)


@pytest.mark.parametrize("name", ["cat.db.orders", "my-cat.db.more.orders"])
def test_a_table_of_a_catalog_has_its_state_in_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()  # which is not meant
    target = TableTarget.parse(f"iceberg:{name}", tmp_path, "state")
    assert (target.in_catalog, target.location) == (True, name)
    assert target.local_path == tmp_path / "state"
    assert TableTarget.parse(f"iceberg:{name}", state="s3a://lake/_orders").scheme == "s3a"
    assert not TableTarget.parse(f"iceberg:./{name}", tmp_path).in_catalog


@pytest.mark.parametrize(
    ("table", "state", "told"),
    [
        (
            "iceberg:cat.db.orders",
            None,
            r"needs a folder: add state: .* or write iceberg:\./cat\.db\.orders for",
        ),
        ("parquet:cat.db.orders", "state", "no Parquet tables of catalogs; write delta:cat.db.orders or"),
        ("delta:lake/orders", "state", "has its state in its own folder; leave it out"),
    ],
)
def test_a_state_is_for_tables_of_catalogs(table: str, state: str | None, told: str) -> None:
    given = {} if state is None else {"state": state}
    with pytest.raises(PipelineError, match=told):
        minimal(table=table, **given)


@pytest.mark.parametrize(
    ("table", "state", "files", "told"),
    [
        ("delta:lake/orders", None, "files", "files: a table at a path has its files in its own folder"),
        ("delta:cat.db.orders", "state", "state/", "files: is the folder of the state; name another"),
    ],
)
def test_only_a_table_of_a_catalog_has_files_elsewhere(
    table: str, state: str | None, files: str, told: str
) -> None:
    with pytest.raises(PipelineError, match=told):
        minimal(table=table, files=files, **({} if state is None else {"state": state}))


def test_the_folder_of_the_files_is_relative_to_the_file_of_the_definition(tmp_path: Path) -> None:
    values = {"topic": "orders", "table": "delta:cat.db.orders", "state": "_orders", "files": "orders"}
    definition = PipelineDefinition.from_mapping(values, folder=tmp_path)
    assert definition.table.files == str(tmp_path / "orders")
    assert PipelineDefinition.from_mapping(definition.to_mapping()) == definition
    stored = PipelineDefinition.from_mapping(values | {"files": "s3a://lake/orders"}, folder=tmp_path)
    assert stored.table.files == "s3a://lake/orders"


def test_a_definition_of_a_catalogs_table_is_kept_in_the_folder_of_its_state(tmp_path: Path) -> None:
    definition = PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "iceberg:cat.db.orders", "state": "_orders"}, folder=tmp_path
    )
    State.of(definition).definition = definition
    assert PipelineDefinition.load(str(tmp_path / "_orders")) == definition
    other = PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "iceberg:cat.db.others", "state": "_orders"}, folder=tmp_path
    )
    with pytest.raises(PipelineError, match=r"has the state of the pipeline of iceberg:cat\.db\.orders"):
        State.of(other)


def test_a_local_state_is_not_for_a_cluster() -> None:
    target = TableTarget.parse("iceberg:cat.db.orders", Path("/lake"), "_orders")
    with pytest.raises(
        PipelineError, match=r"state: /lake/_orders: is a local folder.*state: file:///lake/_"
    ):
        target.check_reach("spark://host:7077")
    TableTarget.parse("iceberg:cat.db.orders", state="hdfs://n/_orders").check_reach("yarn")


def test_a_local_folder_is_refused_where_spark_means_another() -> None:
    local = TableTarget(format="delta", location="/lake/orders")
    with pytest.raises(
        PipelineError, match=r"runs on spark://m:7077, .* or delta:file:///lake/orders if all"
    ):
        local.check_reach("spark://m:7077")
    with pytest.raises(
        PipelineError, match=r"would take this path for one in hdfs://n:8020 .*delta:file:///lake"
    ):
        local.check_reach("local[2]", "hdfs://n:8020")
    local.check_reach("local[2]", "file:///")
    for location in ("file:///lake/orders", "s3a://bucket/orders"):
        TableTarget(format="delta", location=location).check_reach("yarn", "hdfs://n:8020")


def test_a_table_is_loaded_by_its_path_or_with_its_format(tmp_path: Path) -> None:
    definition = minimal(table=f"delta:{tmp_path / 'orders'}", key="id")
    State(definition.table.location).definition = definition
    assert PipelineDefinition.load(tmp_path / "orders") == definition
    assert PipelineDefinition.load(f"delta:{tmp_path / 'orders'}") == definition


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic: orders\ntabel: x", "unknown key 'tabel' (did you mean 'table'?)"),
        ("topic: orders\nzzz: x", "unknown key 'zzz' (known: topic, table, "),
        ("table: delta:x", "topic: is missing; for example 'topic: orders'"),
        ("topic: orders", "table: is missing; for example 'table: delta:lake/orders'"),
        ("topic: a b\ntable: delta:x", "topic: Topic name is invalid: "),
        ("topic: [orders]\ntable: delta:x", "topic: expected text, not ['orders']"),
        ("topic: orders\ntable: dleta:x", "table: unknown format 'dleta' (did you mean 'delta'?)"),
        ("topic: orders\ntable: lake/orders", "names no format; write delta:lake/orders"),
        ("topic: orders\ntable: 'delta:'", "table: no path in 'delta:'"),
        ("- orders", "a pipeline: expected keys and values, not ['orders']"),
        ("", "a pipeline: expected keys and values, not nothing"),
        ("topic: 'orders\n", "line 2: not YAML: found unexpected end of stream"),
        ("topic: orders\ntable: delta:x\ntopic: other", "line 3: not YAML: 'topic' is given twice; keep one"),
        ("topic: a\nformat: {kind: json, kind: raw}", "line 2: not YAML: 'kind' is given twice; keep one"),
        (
            "topic: a\ntable: delta:x\npartition_by: [day(timestamp), bucket(16, id)]",
            "partition_by: YAML split 'bucket(16' at a comma; put it in quotes: ['bucket(16, id)']",
        ),
        (
            "topic: !!python/object:os.system x",
            "line 1: not YAML: a value that begins with '*'",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_file_key_and_remedy(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(text)
    assert str(caught.value).startswith("orders.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "a/b"}, "name: 'a/b' may contain only letters"),
        ({"bootstrap": "localhost"}, "bootstrap: expected HOST:PORT"),
        ({"format": "jsn"}, "format: unknown kind 'jsn' (did you mean 'json'?)"),
        ({"format": {"kind": "json", "shema": "x"}}, "unknown key 'format.shema' (did you mean 'schema'?)"),
        ({"format": {"kind": "raw", "schema": "x"}}, "format.schema: raw takes no schema"),
        ({"format": {"kind": "raw", "rescued": "r"}}, "format.rescued: raw takes no rescued; leave it out"),
        ({"format": {"kind": "json", "rescued": ["r"]}}, "format.rescued: expected text, not ['r']"),
        ({"format": "avro"}, "format: avro needs a schema, a registry or schemas by id"),
        ({"format": "protobuf"}, "format: protobuf needs a schema"),
        ({"format": {"kind": "avro", "registry": "host"}}, "format.registry: expected an http"),
        ({"format": {"kind": "avro", "schemas": {"a": "b"}}}, "format.schemas: expected ID: FILE"),
        ({"format": 3}, "format: unknown kind '3'"),
        ({"mode": "upser"}, "mode: unknown mode 'upser' (did you mean 'upsert'?)"),
        ({"mode": "append", "key": "id"}, "key: has no effect with mode append"),
        ({"merge_mode": "merge-on-reed"}, "merge_mode: unknown mode 'merge-on-reed' (did you mean"),
        ({"mode": "append", "merge_mode": "copy-on-write"}, "merge_mode: has no effect on appends"),
        ({"table": "parquet:x", "mode": "upsert"}, "table: Parquet files cannot be upserted into"),
        ({"table": "parquet:x", "key": "id"}, "table: Parquet files cannot be upserted into"),
        ({"key": [1]}, "key: expected a name or a list of names, not [1]"),
        ({"start": "yesterday"}, "start: expected a time like 2025-01-31T12:00:00Z"),
        ({"maintain": "never"}, "maintain: expected true or false, not 'never'"),
        ({"retain": "a week"}, "retain: expected a time like 30s, 5m or 1h, not 'a week'"),
        ({"widen_types": "yes"}, "widen_types: expected true or false, not 'yes'"),
        ({"table": "parquet:x", "widen_types": True}, "widen_types: the files of a Parquet table keep their"),
        (
            {"table": "iceberg:x", "widen_types": True, "format": "json"},
            "widen_types: Iceberg cannot change a BIGINT to a DECIMAL, and inferred columns need no other",
        ),
        (
            {"widen_types": True, "format": {"kind": "json", "rescued": "r"}},
            "widen_types: of inferred JSON, values that do not fit their column are rescued",
        ),
        ({"every": "often"}, "every: expected a time like 30s"),
        ({"every": "0s"}, "every: expected a time like 30s"),
        ({"dead_letter": "orders"}, "dead_letter: is the topic itself; for example orders.dlq"),
        ({"dead_letter": "a b"}, "dead_letter: Topic name is invalid"),
        ({"max_dead_letters": 5}, "max_dead_letters: counts dead letters, and there is no dead_letter:"),
        (
            {**LETTERS, "max_dead_letters": -1},
            "expected a number of records, or a share such as 1%, not '-1'",
        ),
        (
            {**LETTERS, "max_dead_letters": "many"},
            "max_dead_letters: expected a number of records, or a share",
        ),
        ({**LETTERS, "max_dead_letters": "101%"}, "max_dead_letters: a share is at most 100%, not '101%'"),
        ({**LETTERS, "max_dead_letters": True}, "max_dead_letters: expected text, not True"),
        ({"max_offsets_per_trigger": 0}, "max_offsets_per_trigger: expected a whole number above 0, not 0"),
        ({"max_offsets_per_trigger": True}, "expected a whole number above 0, not True"),
        ({"max_lag": 0}, "max_lag: expected a whole number above 0, not 0"),
        ({"max_batch_time": "long"}, "max_batch_time: expected a time like 30s"),
        (
            {"on_limit": "notify"},
            "on_limit: there is no limit; set max_lag, max_batch_time or max_dead_letters",
        ),
        ({"on_limit": "'x", "max_lag": 1}, 'on_limit: expected a command, not "\'x": no closing quotation'),
        ({"kafka": "x"}, "kafka: expected options and values, not a text"),
        ({"kafka": {"a": [1]}}, "kafka: expected a: VALUE, not a list"),
        ({"kafka": {"kafka.a": "b"}}, "write it without 'kafka.': a"),
        (
            {"kafka": {"secruity.protocol": "SSL"}},
            "kafka.secruity.protocol: unknown option (did you mean 'security.protocol'?)",
        ),
        ({"kafka": {"group.id": "g"}}, "kafka.group.id: cannot be set here; use group:"),
        ({"spark": {"executor": "b"}}, "spark.executor: Spark's options begin with 'spark.'"),
    ],
)
def test_a_wrong_value_says_what_is_expected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        minimal(**values)
    assert str(caught.value).startswith("orders.yaml: ")
    assert message in str(caught.value)


def test_an_option_of_a_plug_in_is_no_misspelt_one() -> None:
    options = {"our.interceptor.url": "x", "linger.ms": "5", "ssl.protocol": "TLSv1.3"}
    assert minimal(kafka=options).kafka == options


def test_a_missing_file_names_one_that_is_like_it(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FULL)
    with pytest.raises(PipelineError, match=r"no such file \(did you mean 'orders.yaml'\?\)"):
        PipelineDefinition.load(tmp_path / "order.yaml")
    with pytest.raises(PipelineError, match="neither a pipeline's YAML file nor a table"):
        PipelineDefinition.load(tmp_path)


def test_a_compacted_topic_is_upserted_unless_the_mode_is_given() -> None:
    assert minimal().mode_for({"delete"}) == "append"
    assert minimal().mode_for({"compact"}) == "upsert"
    assert minimal().mode_for({"compact", "delete"}) == "upsert"
    assert minimal(key="id").mode_for({"delete"}) == "upsert"
    assert minimal(mode="append").mode_for({"compact"}) == "append"
    with pytest.raises(PipelineError, match="Parquet files cannot be upserted into; use delta:PATH"):
        minimal(table="parquet:x").mode_for({"compact"})


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-01-31T12:00:00", 1738324800000),
        ("2025-01-31T13:00:00+01:00", 1738324800000),
        ("2025-01-31", 1738281600000),
        ("1738324800000", 1738324800000),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, moment: int) -> None:
    assert timestamp_ms(text) == moment
    assert minimal(start=text).start_ms == moment


def test_durations_have_units() -> None:
    assert [seconds(text) for text in ("500ms", "30s", "1.5 m", "2 hours", "1d")] == [
        0.5,
        30,
        90,
        7200,
        86400,
    ]


@pytest.mark.parametrize(
    ("schema", "is_file"),
    [
        ("order.avsc", True),
        ("schemas/my order.json", True),
        ("https://registry/x.json", True),
        ("order", True),
        ("id INT", False),
        ("id INT, name STRING", False),
        ("id: INT", False),
        ('{"type": "record"}', False),
        ('"string"', False),
    ],
)
def test_a_schema_is_a_file_or_the_schema_itself(schema: str, is_file: bool) -> None:
    assert is_schema_file(schema) is is_file


def test_a_pipeline_says_the_same_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = (
        Pipeline("orders", bootstrap="broker-1:9092,broker-2:9092", name="orders-table")
        .avro("order.avsc", schemas={7: "old.avsc"})
        .select("*", "upper(name) AS name, shop")
        .where("amount > 0 AND shop <> 'x'")
        .upsert(["id", "shop"], merge_mode="merge-on-read")
        .partition_by("day(timestamp)")
        .widen_types()
        .start("2025-01-31T12:00:00+00:00")
        .dead_letter("orders.dlq")
        .max_dead_letters("1%")
        .group("orders-table")
        .max_offsets_per_trigger(1000)
        .maintenance(within_run=False, retain="12h")
        .limit(max_lag=50000, max_batch_time="10m", on_limit='notify "the team"')
        .kafka(security_protocol="SSL")
        .kafka(request_timeout_ms="1000")
        .to_delta("lake/orders")
        .checkpoint("checkpoints")
    )
    (tmp_path / "orders.yaml").write_text(FULL.replace("every: 30s\n", "").partition("spark:")[0])
    assert pipeline.definition == PipelineDefinition.load(tmp_path / "orders.yaml")
    assert Pipeline.load(tmp_path / "orders.yaml").definition == pipeline.definition


def test_each_step_leaves_the_pipeline_before_it_alone() -> None:
    orders = Pipeline("orders").json("id INT").to_parquet("lake/orders")
    assert orders.upsert("id").to_iceberg("x").definition.key == ("id",)
    assert orders.append().definition.mode == "append"
    assert orders.definition.mode is None
    assert orders.definition.format.schema == "id INT"
    assert orders.json(rescued="_rescued").definition.format.rescued == "_rescued"


def test_a_pipeline_without_a_table_says_how_to_name_one() -> None:
    with pytest.raises(PipelineError, match=r"has no table; add .to_delta\(path\)"):
        _ = Pipeline("orders").json().definition


def test_importing_the_package_imports_neither_spark_nor_a_client() -> None:
    program = (
        "import sys; from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError;"
        "Pipeline('orders').to_delta('x').definition;"
        "print([name for name in ('pyspark', 'confluent_kafka', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"


def test_options_of_clients_may_be_in_a_file_as_kafkas_tools_take_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# for all tools\nbootstrap.servers=other:9092\ngroup.id=tools\nsecurity.protocol: SSL\n"
        "ssl.key.password=hunter-2\nrequest.timeout.ms=1000\nkey.serializer=some.Class\n"
    )
    definition = PipelineDefinition.from_mapping(
        {
            "topic": "orders",
            "table": "delta:orders",
            "client_config": "client.properties",
            "kafka": {"request.timeout.ms": 2000},
        },
        folder=tmp_path,
    )
    assert definition.kafka_options == {
        "security.protocol": "SSL",
        "ssl.key.password": "hunter-2",
        "request.timeout.ms": "2000",
    }
    State.of(definition).definition = definition
    kept = PipelineDefinition.load(str(tmp_path / "orders"))
    assert kept == definition
    written = "".join(path.read_text() for path in tmp_path.rglob("pipeline.yaml"))
    assert "hunter" not in written + definition.to_yaml() + repr(definition)
    assert "hunter" not in definition.redacted("ssl.key.password=hunter-2")
    file.write_text("securty.protocol=SSL\n")
    with pytest.raises(PipelineError, match=r"client_config: .*: unknown option \(did you mean 'security"):
        definition.kafka_options  # noqa: B018
    file.unlink()
    with pytest.raises(PipelineError, match=r"client_config: .*client\.properties cannot be read: No such"):
        definition.kafka_options  # noqa: B018


def test_joined_tables_are_read_and_written() -> None:
    joins = {
        "customers": {"table": "delta:lake/customers", "match": {"id": "customer_id"}},
        "prices": {"table": "csv:s3a://lake/prices", "match": ["country", "zip"]},
        "countries": {"table": "iceberg:lake.sales.countries", "match": "country"},
    }
    text = {
        "topic": "orders",
        "table": "parquet:lake/orders",
        "join": joins,
        "where": "customers IS NOT NULL",
    }
    found = PipelineDefinition.from_mapping(text, folder=Path("/data"))
    assert found.lakes == ["delta", "iceberg"]
    assert found.join[0].table == "delta:/data/lake/customers"
    assert found.join[1].match == (("country", "country"), ("zip", "zip"))
    assert found.join[2].in_catalog
    assert PipelineDefinition.from_mapping(found.to_mapping()) == found


@pytest.mark.parametrize(
    ("join", "problem"),
    [
        ("customers", "join: expected names and tables, not 'customers'"),
        ({"a b": {}}, "join: 'a b' is no name"),
        ({"c": "delta:lake/c"}, "join.c: expected table and match, not 'delta:lake/c'"),
        ({"c": {"match": "id"}}, "join.c.table: is missing"),
        ({"c": {"table": "lake/c", "match": "id"}}, "join.c.table: 'lake/c' names no format"),
        ({"c": {"table": "detla:lake/c", "match": "id"}}, "(did you mean 'delta'?)"),
        ({"c": {"table": "parquet:a.b.c", "match": "id"}}, "write parquet:./a.b.c for a folder"),
        ({"c": {"table": "delta:lake/c"}}, "join.c.match: is missing"),
        ({"c": {"table": "delta:lake/c", "matches": "id"}}, "unknown key 'join.c.matches'"),
    ],
)
def test_a_join_that_is_written_wrong_is_refused(join: object, problem: str) -> None:
    text = {"topic": "orders", "table": "parquet:lake/orders", "join": join, "where": "c IS NOT NULL"}
    with pytest.raises(PipelineError) as caught:
        PipelineDefinition.from_mapping(text)
    assert problem in str(caught.value)


def test_a_join_that_nothing_names_is_refused() -> None:
    join = {"c": {"table": "delta:lake/c", "match": "id"}}
    with pytest.raises(PipelineError, match="join: neither select nor where names anything of it"):
        PipelineDefinition.from_mapping({"topic": "orders", "table": "parquet:lake/orders", "join": join})


def test_a_joined_table_that_a_cluster_does_not_reach_is_refused() -> None:
    join = {"c": {"table": "csv:/lake/c.csv", "match": "id"}}
    text = {"topic": "orders", "table": "delta:s3a://lake/orders", "join": join, "where": "c IS NULL"}
    (joined,) = PipelineDefinition.from_mapping(text).join
    joined.check_reach("local[2]")
    with pytest.raises(PipelineError, match=r"^join\.c: .*/lake/c.csv: is a local folder"):
        joined.check_reach("spark://host:7077")
