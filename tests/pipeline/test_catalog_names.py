"""A pipeline that is named by the name of its table in a catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.state import State
from tests.pipeline.conftest import MakeTopic

pytest.importorskip("pyspark")

NAME = "cat.db.orders"


class Thrown:
    """A Java exception, whose text the JVM is asked for."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __str__(self) -> str:
        if not self._catalog.runs:
            raise ConnectionRefusedError(111, "Connection refused")
        return "[CLASS] no answer. SQLSTATE: 1\n\tat java"


class Catalog:
    """A session that has one catalog, with the properties of its tables by name."""

    def __init__(self) -> None:
        self.tables: dict[str, Mapping[str, str]] = {}
        self.asked: list[str | None] = []
        self.down = self.runs = False
        settings = {"spark.sql.catalog.cat": "a.Catalog", "spark.sql.catalogImplementation": "in-memory"}
        self.conf = SimpleNamespace(get=lambda name, default=None: settings.get(name, default))
        self.catalog = SimpleNamespace(tableExists=self._exists)

    def _exists(self, name: str) -> bool:
        from pyspark.errors import PySparkException

        if self.down:
            failed = type("FailedError", (PySparkException,), {"java_exception": Thrown(self)})
            raise failed("an error occurred while calling")
        return name.replace("`", "") in self.tables

    def sql(self, statement: str) -> Any:
        name = statement.removeprefix("SHOW TBLPROPERTIES ").replace("`", "")
        return SimpleNamespace(collect=lambda: [*self.tables[name].items()])

    @contextlib.contextmanager
    def brief_session(self, table_format: str | None) -> Iterator[Catalog]:
        self.asked.append(table_format)
        self.runs = True
        try:
            yield self
        finally:
            self.runs = False


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    made = Catalog()
    monkeypatch.setattr("kafkapy.pipeline.tables.catalog_table.brief_session", made.brief_session)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    return made


def written(folder: Path, catalog: Catalog, **values: str) -> PipelineDefinition:
    """A pipeline that has written its table, as far as its state and the catalog tell."""
    given = {"topic": "orders", "table": f"iceberg:{NAME}", "state": "state", **values}
    definition = PipelineDefinition.from_mapping(given, folder=folder)
    state = State.of(definition)
    state.definition = definition
    identity = str(state.begin().table_id)
    catalog.tables[NAME] = {"kafkapy.table-id": identity, "kafkapy.state": str(folder / "state"), "b": "c"}
    return definition


def test_the_properties_of_the_table_lead_to_its_definition(catalog: Catalog, tmp_path: Path) -> None:
    definition = written(tmp_path, catalog)
    assert PipelineDefinition.load(NAME) == definition
    assert PipelineDefinition.load(f"iceberg:{NAME}") == definition
    assert PipelinesFile.load(NAME, master="yarn").only != definition
    assert catalog.asked == [None, "iceberg", None]


def test_a_command_takes_the_name(
    catalog: Catalog, tmp_path: Path, bootstrap: str, make_topic: MakeTopic
) -> None:
    written(tmp_path, catalog, topic=make_topic(records=3), name="named", bootstrap=bootstrap)
    done = CliRunner().invoke(pipeline, ["status", NAME], standalone_mode=False)
    assert done.return_value == 0
    assert "named: " in done.output
    done = CliRunner().invoke(pipeline, ["dlq", "list", NAME], standalone_mode=False)
    assert str(done.exception).startswith("named has no dead-letter topic")


def test_what_is_wrong_with_a_name_is_told_with_the_remedy(catalog: Catalog, tmp_path: Path) -> None:
    def told(name: str) -> str:
        with pytest.raises(PipelineError) as refused:
            PipelineDefinition.load(name)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    others = "name the pipeline by its YAML file, or by the folder of its state"
    assert told("nowhere.db.orders") == (
        "nowhere.db.orders: Spark has no catalog nowhere; give Spark its settings (spark.sql.catalog.nowhere "
        f"and the like, in /etc/spark/spark-defaults.conf), or {others}"
    )
    assert "(spark.sql.catalogImplementation and the like, in" in told("spark_catalog.db.orders")
    assert told(NAME) == (
        f"{NAME}: the catalog has no such table; correct the name, or {others} if it has not run"
    )
    catalog.tables[NAME] = {"owner": "ann"}
    assert told(NAME) == f"{NAME}: no pipeline has created this table; name another one"
    written(tmp_path, catalog)
    catalog.tables[NAME] = {**catalog.tables[NAME], "kafkapy.table-id": "another"}
    created = f"{NAME}: the state that it was created with, {tmp_path}/state, is "
    assert told(NAME) == f"{created}of another table now; {others}"
    written(tmp_path, catalog)
    (tmp_path / "state").rename(tmp_path / "moved")
    assert told(f"iceberg:{NAME}") == f"iceberg:{created}not here; {others}"
    catalog.down = True
    assert told(NAME) == f"{NAME}: the catalog cannot be asked (no answer); {others}"
