"""Tables by their names in catalogs, judged by other clients of the same catalog."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from interop.conftest import MakeTopic
from interop.spark.following import following
from interop.spark.glue_catalog import GlueCatalog
from interop.spark.kill_run import Driver
from interop.spark.rest_catalog import RestCatalog, rest_catalog_jars
from interop.spark.test_audit import produce
from interop.support.maven import CACHE
from interop.support.waiting import wait_until
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.audit.repair import RepairPlan, repair
from kafkapy.pipeline.commands.cli import pipeline as commands
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.maintain import maintain
from kafkapy.pipeline.replay.replay import replay
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.status import status_of
from tests.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Lake = RestCatalog | GlueCatalog
JSON = {"kind": "json", "schema": "id BIGINT, name STRING"}


@pytest.fixture(scope="module", params=[RestCatalog, GlueCatalog], ids=["rest", "glue"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    (port,) = free_ports(1)
    with request.param(tmp_path_factory.mktemp("catalog"), port) as started:
        started.client.create_namespace("sales")
        yield started


@pytest.fixture
def catalog(spark: SparkSession, lake: Lake, name: str) -> str:
    """The name of the catalog in the session, which no test has used before."""
    own = f"own_{name.replace('-', '_')}"
    lake.prepare(spark)
    for setting, value in lake.catalog_options(own).items():
        spark.conf.set(setting, value)
    return own


def definition_of(topic: str, table: str, servers: str, folder: Path, **values: Any) -> PipelineDefinition:
    given = {"state": "state", "format": JSON, "mode": "append", **values}
    return PipelineDefinition.from_mapping(
        {"topic": topic, "table": table, "bootstrap": servers, **given}, folder=folder
    )


def records(ids: range, name: str = "a") -> list[tuple[int, str, str]]:
    return [(0, f"k{number}", json.dumps({"id": number, "name": name})) for number in ids]


def by_pyiceberg(lake: Lake, table: str) -> list[tuple[int, str]]:
    rows = lake.client.load_table(f"sales.{table}").scan(selected_fields=("id", "name")).to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def test_an_append_table_of_a_catalog_is_written_and_looked_after(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic = make_topic()
    definition = definition_of(topic, f"iceberg:{catalog}.sales.appended", bootstrap_servers, tmp_path)
    for ids in (range(10), range(10, 25)):
        produce(bootstrap_servers, topic, records(ids))
        run(definition, once=True, spark=spark)
    assert by_pyiceberg(lake, "appended") == [(number, "a") for number in range(25)]
    status = status_of(definition)
    assert (status.lag, status.progress and status.progress.total_rows) == (0, 25)
    assert audit(definition, spark).ok
    found = lineage(definition, source=f"{topic}-0-12", spark=spark)
    assert found.version == str(lake.client.load_table("sales.appended").current_snapshot().snapshot_id)
    assert len(found.rows) == 1
    assert replay(definition, f"{topic}-again", spark=spark).records == 25
    lines = maintain(definition, retain=timedelta(days=7), spark=spark)
    assert [line.rpartition(" ")[2] for line in lines] == [
        "(rewrite_data_files)",
        "(expire_snapshots)",
        "(remove_orphan_files)",
    ]
    reset(plan_reset(definition, '{"0": 20}'), spark=spark)
    assert len(by_pyiceberg(lake, "appended")) == 20
    run(PipelineDefinition.load(tmp_path / "state"), once=True, spark=spark)
    assert by_pyiceberg(lake, "appended") == [(number, "a") for number in range(25)]
    assert audit(definition, spark, deep=True).ok
    assert not (tmp_path / f"{catalog}.sales.appended").exists()


def test_upserts_and_new_columns_reach_a_catalog(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic = make_topic()
    place, given = f"{lake.elsewhere}/upserted", {"mode": "upsert", "format": "json"}
    definition = definition_of(
        topic, f"iceberg:{catalog}.sales.upserted", bootstrap_servers, tmp_path, files=place, **given
    )
    produce(bootstrap_servers, topic, records(range(10)))
    run(definition, once=True, spark=spark)
    more = [(0, "k3", json.dumps({"id": 3, "name": "b", "price": 2})), (0, "k4", None)]
    produce(bootstrap_servers, topic, more)
    run(definition, once=True, spark=spark)
    expected = [(number, "b" if number == 3 else "a") for number in range(10) if number != 4]
    assert by_pyiceberg(lake, "upserted") == expected
    table = lake.client.load_table("sales.upserted")
    assert "price" in table.schema().column_names
    assert table.location() == place
    assert audit(definition, spark).ok
    assert list((tmp_path / "state" / "_kafkapy" / "tombstones").glob("part-*"))


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_of_a_catalog_is_repaired(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path, mode: str,
) -> None:  # fmt: skip
    topic, table = make_topic(), f"{catalog}.sales.repaired_{mode}"
    definition = definition_of(topic, f"iceberg:{table}", bootstrap_servers, tmp_path, mode=mode)
    produce(bootstrap_servers, topic, [*records(range(10)), *records(range(4, 5), "b")])
    run(definition, once=True, spark=spark)
    healthy = by_pyiceberg(lake, f"repaired_{mode}")
    columns = ", ".join(spark.table(table).columns)
    twice = f"SELECT {columns} FROM {table} WHERE id < 3"
    foreign = f"SELECT {columns.replace('_topic', chr(39) + 'another' + chr(39) + ' AS _topic')} FROM {table}"
    spark.sql(f"INSERT INTO {table} {twice} UNION ALL {foreign} WHERE id = 9")
    damaged = by_pyiceberg(lake, f"repaired_{mode}")
    assert len(damaged) == len(healthy) + 4
    snapshots = len(lake.client.load_table(f"sales.repaired_{mode}").snapshots())
    file = tmp_path / "orders.yaml"
    file.write_text(definition.to_yaml())
    done = CliRunner().invoke(commands, ["audit", str(file), "--repair", "--dry-run"], standalone_mode=False)
    assert done.return_value == 1, done.output
    assert "4 rows are deleted, in one commit of the table" in done.output
    assert by_pyiceberg(lake, f"repaired_{mode}") == damaged
    plans: list[RepairPlan] = []

    def agree(plan: RepairPlan) -> bool:
        plans.append(plan)
        return True

    assert repair(definition, agree=agree, spark=spark)
    assert plans[0].deleted - plans[0].kept == 4
    assert by_pyiceberg(lake, f"repaired_{mode}") == healthy
    assert len(lake.client.load_table(f"sales.repaired_{mode}").snapshots()) == snapshots + 1
    assert audit(definition, spark, deep=True).ok


def test_drivers_of_tables_in_a_catalog_are_killed_and_lose_nothing(
    lake: Lake, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic()
    names = {"append": "killed_append", "upsert": "killed_upsert"}
    common = {
        "topic": topic,
        "bootstrap": bootstrap_servers,
        "format": JSON,
        "max_offsets_per_trigger": 100,
        "spark": lake.catalog_options("killed") | lake.session_options,
    }
    files = []
    for mode, name in names.items():
        file = tmp_path / f"{name}.yaml"
        more = {"name": name, "table": f"iceberg:killed.sales.{name}", "state": name, "mode": mode}
        file.write_text(json.dumps({**common, **more}))
        files.append(file)

    def planned() -> set[object]:
        return set(tmp_path.glob("*/_kafkapy/checkpoint/*/offsets/[0-9]*"))

    def committed() -> set[object]:
        known = [f"sales.{name}" for name in names.values() if lake.client.table_exists(f"sales.{name}")]
        return {lake.client.load_table(name).metadata.current_snapshot_id for name in known}

    def kill_after(driver: Driver, moment: Callable[[], set[object]]) -> None:
        before = moment()
        driver.go()
        wait_until(lambda: bool(moment() - before) or not driver.running, timeout=200)
        assert driver.running, driver.told()
        driver.kill("driver")

    drivers = [Driver(tmp_path, how, files) for how in ("follow", "follow", "follow", "once")]
    try:
        for driver in drivers:
            driver.wait_until_ready()
        for number, driver in enumerate(drivers[:-1]):
            sent = records(range(number * 400, number * 400 + 400))
            produce(bootstrap_servers, topic, [*sent, *records(range(50), f"from {number}")])
            kill_after(driver, committed if number else planned)
        drivers[-1].go()
        assert drivers[-1].wait(400) == 0, drivers[-1].told()
    finally:
        for driver in drivers:
            driver.end()
    once = [(number, "a") for number in range(1200)]
    again = [(number, f"from {sent}") for sent in range(3) for number in range(50)]
    assert by_pyiceberg(lake, names["append"]) == sorted([*once, *again])
    last = {**dict(once), **dict.fromkeys(range(50), "from 2")}
    assert by_pyiceberg(lake, names["upsert"]) == sorted(last.items())


def test_two_drivers_of_one_table_exclude_each_other(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic, table = make_topic(), f"iceberg:{catalog}.sales.shared"
    definition = definition_of(topic, table, bootstrap_servers, tmp_path)
    elsewhere = definition_of(topic, table, bootstrap_servers, tmp_path, state="elsewhere")
    produce(bootstrap_servers, topic, records(range(10)))
    with following(lambda stop: run(definition, every="200ms", spark=spark, stop=stop)):
        wait_until(lambda: status_of(definition).batch == 0, timeout=120)
        with pytest.raises(PipelineError, match="running already"):
            run(definition, once=True, spark=spark)
        with pytest.raises(PipelineError, match="was written with another state than the one in"):
            run(elsewhere, once=True, spark=spark)
    assert by_pyiceberg(lake, "shared") == [(number, "a") for number in range(10)]


def test_what_a_catalog_lacks_or_has_already_is_told_in_one_line(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic = make_topic()
    produce(bootstrap_servers, topic, records(range(3)))
    spark.sql(f"CREATE TABLE {catalog}.sales.foreign (id BIGINT) USING iceberg")

    def told(table: str) -> str:
        with pytest.raises(PipelineError) as refused:
            run(definition_of(topic, table, bootstrap_servers, tmp_path), once=True, spark=spark)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "Spark has no catalog nowhere; give spark: its settings" in told("iceberg:nowhere.sales.orders")
    assert f"CREATE SCHEMA `{catalog}`.`buying`" in told(f"iceberg:{catalog}.buying.orders")
    assert "no pipeline has created this table" in told(f"iceberg:{catalog}.sales.foreign")
    assert "are lost when Spark ends" in told("delta:spark_catalog.default.orders")


def test_a_table_that_was_dropped_is_not_begun_in_the_middle(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic = make_topic()
    definition = definition_of(topic, f"iceberg:{catalog}.sales.dropped", bootstrap_servers, tmp_path)
    produce(bootstrap_servers, topic, records(range(3)))
    run(definition, once=True, spark=spark)
    lake.client.drop_table("sales.dropped")
    produce(bootstrap_servers, topic, records(range(3, 5)))
    with pytest.raises(PipelineError, match=r"the table is gone, and the state .* --to earliest"):
        run(definition, once=True, spark=spark)
    reset(plan_reset(definition, "earliest"), spark=spark)
    run(definition, once=True, spark=spark)
    assert by_pyiceberg(lake, "dropped") == [(number, "a") for number in range(5)]


def test_commands_take_the_name_that_a_table_has_in_the_catalog(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic, table = make_topic(), f"{catalog}.sales.named"
    spark.sql(f"CREATE TABLE {catalog}.sales.another (id BIGINT) USING iceberg")
    dead = {"dead_letter": f"{topic}.dlq"}
    definition = definition_of(topic, f"iceberg:{table}", bootstrap_servers, tmp_path, **dead)
    produce(bootstrap_servers, topic, [*records(range(10)), (0, "k", "no JSON")])

    def told(*arguments: str) -> str:
        done = CliRunner().invoke(commands, arguments, standalone_mode=False)
        return done.output if done.exception is None else str(done.exception)

    assert told("status", table).endswith(
        f"{table}: the catalog has no such table; correct the name, or name the pipeline by its YAML file, "
        "or by the folder of its state if it has not run"
    )
    run(definition, once=True, spark=spark)
    assert f"{topic} -> iceberg:{table}" in told("status", table)
    assert json.loads(told("status", f"iceberg:{table}", "--json"))["lag"] == 0
    assert "Clean" in told("audit", table)
    assert "1 dead letters" in told("dlq", "list", table)
    assert "no JSON" in told("dlq", "show", table)
    assert "1 dead letters replayed" in told("dlq", "replay", table)
    record = f"{topic}-0-3"
    assert told("lineage", table, "--source", record).startswith(f"{record} in iceberg:{table}")
    assert told("report", table, "--html", str(tmp_path / "page.html")).startswith("Wrote")
    assert "10 records written" in told("replay", table, "--to", f"{topic}-again")
    assert "(expire_snapshots)" in told("maintain", table)
    assert "partition 0" in told("reset", table, "--to", '{"0": 5}', "--yes")
    assert "5 rows in" in told("run", table, "--once")
    assert by_pyiceberg(lake, "named") == [(number, "a") for number in range(10)]
    assert Pipeline.load(table).definition.topic == topic

    nowhere = told("status", "nowhere.sales.named")
    assert "Spark has no catalog nowhere; give Spark its settings (spark.sql.catalog.nowhere" in nowhere
    assert "spark-defaults.conf), or name the pipeline by its YAML file" in nowhere
    assert "no pipeline has created this table" in told("status", f"{catalog}.sales.another")
    assert "no such table" in told("status", f"{catalog}.buying.named")
    (tmp_path / "state").rename(tmp_path / "moved")
    gone = told("status", table)
    assert f"the state that it was created with, {tmp_path}/state, is not here; name the pipeline" in gone


def test_a_name_alone_starts_a_spark_with_its_own_settings(
    spark: SparkSession, lake: Lake, catalog: str, make_topic: MakeTopic, bootstrap_servers: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    topic, (unused,), table = make_topic(), free_ports(1), f"{catalog}.sales.alone"
    produce(bootstrap_servers, topic, records(range(10)))
    run(definition_of(topic, f"iceberg:{table}", bootstrap_servers, tmp_path), once=True, spark=spark)
    away = {
        "spark.sql.catalog.away": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.away.type": "rest",
        "spark.sql.catalog.away.uri": f"http://127.0.0.1:{unused}",
    }
    own = {"spark.jars.ivy": str(CACHE / "spark" / "ivy"), "spark.ui.enabled": "false"}
    settings = lake.catalog_options(catalog) | lake.session_options | own | away
    (tmp_path / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))

    def told(*arguments: str) -> tuple[int, str, list[str]]:
        command = [sys.executable, "-m", "kafkapy", "pipeline", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
        return done.returncode, done.stdout, done.stderr.splitlines()

    status, output, lines = told("status", table, "--json")
    assert (status, lines) == (0, ["Starting Spark to ask a catalog"])
    assert json.loads(output)["lag"] == 0
    status, output, lines = told("audit", f"iceberg:{table}", "--master", "local[2]")
    assert (status, lines[0]) == (0, "Starting Spark to ask a catalog")
    assert "Clean" in output
    status, _, lines = told("status", "away.sales.alone")
    assert status == 1
    assert lines[0] == "Starting Spark to ask a catalog"
    assert lines[-1].startswith("kafkapy: away.sales.alone: the catalog cannot be asked (")
    assert len(lines) == 2, lines


def test_a_metastore_and_a_database_are_catalogs_too(
    make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta and Iceberg in a Hive metastore, Iceberg in SQLite by JDBC."""
    import polars
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import StaticTable

    topic, changes = make_topic(), make_topic()
    produce(bootstrap_servers, topic, records(range(10)))
    (tmp_path / "hive").mkdir()
    (driver,) = rest_catalog_jars().glob("sqlite-jdbc-*.jar")
    database = tmp_path / "catalog.db"
    derby = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
    spark = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tmp_path / "hive"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        # Locks need tables of the metastore that Derby would have to be given first.
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
        "spark.jars": str(driver),
        "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
        "spark.sql.catalog.jdbc": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.jdbc.type": "jdbc",
        "spark.sql.catalog.jdbc.uri": f"jdbc:sqlite:{database}",
        "spark.sql.catalog.jdbc.warehouse": str(tmp_path / "warehouse"),
        "spark.sql.catalog.jdbc.jdbc.schema-version": "V1",
        "spark.sql.catalog.hive": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hive.type": "hive",
    }
    made = SqlCatalog("jdbc", uri=f"sqlite:///{database}", warehouse=str(tmp_path / "warehouse"))
    made.create_namespace("sales")
    file = tmp_path / "lake.yaml"
    common = {"bootstrap": bootstrap_servers, "topic": topic, "format": JSON, "mode": "append"}
    tables = ["delta:spark_catalog.default.orders", "iceberg:jdbc.sales.orders", "iceberg:hive.default.icy"]
    entries = [
        {"name": f"p{number}", "table": table, "state": f"state{number}"}
        for number, table in enumerate(tables)
    ]
    marked = {"table": "delta:spark_catalog.default.marked", "mode": "upsert", "merge_mode": "merge-on-read"}
    entries.append({"topic": changes, "state": "state3", "files": "elsewhere/marked", **marked})
    file.write_text(json.dumps({**common, "spark": spark, "master": "local[2]", "pipelines": entries}))
    for ids in (range(10, 15), range(15, 20)):
        produce(bootstrap_servers, topic, records(ids))
        produce(bootstrap_servers, changes, records(range(10), f"from {ids[0]}"))
        command = [sys.executable, "-m", "kafkapy", "pipeline", "run", str(file), "--once"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
    expected = list(range(20))
    appended = polars.scan_delta(str(tmp_path / "hive" / "orders")).collect()
    assert sorted(appended["id"]) == expected
    upserted = polars.scan_delta(str(tmp_path / "elsewhere" / "marked")).collect()
    assert sorted(zip(upserted["id"], upserted["name"], strict=True)) == [(n, "from 15") for n in range(10)]
    rows = made.load_table("sales.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == expected
    newest = max(tmp_path.rglob("icy/metadata/*.metadata.json"))
    rows = StaticTable.from_metadata(str(newest)).scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == expected
    assert Pipeline.load(tmp_path / "state0").status().lag == 0
    (tmp_path / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in spark.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    for number, table in enumerate(tables):
        command = [sys.executable, "-m", "kafkapy", "pipeline", "status", table.partition(":")[2], "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["name"] == f"p{number}"
