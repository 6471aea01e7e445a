"""A table by its name in a catalog of Spark, and whose table it is.

Spark's settings `spark.sql.catalog.NAME...` configure a catalog. A pipeline's table has two properties:

    kafkapy.table-id    the id of the pipeline's state (`table_id` in incarnation.json)
    kafkapy.state       the folder of the state when the table was created

Two drivers exclude each other by a lock in the folder of the state. Two definitions could name the same table
and two folders, or one path that is another folder on each machine. So a table is only written with the state
whose id it has. It gets the id in the commit that creates it.

A command may be given the name alone (`state_of_table`). Then Spark's own settings configure the catalog, and
the properties lead to the state.

Iceberg's catalogs keep tables in memory for half a minute by default, so a session would not see what another
one has just committed. That is switched off in sessions that have not used the catalog yet; in others the
table is loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state_folder import StateFolder
from kafkapy.pipeline.table_target import TableTarget, local_path
from kafkapy.pipeline.tables.sql import dotted, first_line, text
from kafkapy.spark import brief_session, defaults_file

_TABLE_ID: Final = "kafkapy.table-id"
_STATE: Final = "kafkapy.state"
_LOCATION: Final = "location"  # of Spark's own interface to catalogs
_SESSION_CATALOG: Final = "spark_catalog"
_DETAILS: Final = "# Detailed Table Information"


class CatalogTable:
    """The table that `target` names, which need not exist."""

    def __init__(self, spark: SparkSession, target: TableTarget) -> None:
        self._spark, self._target = spark, target
        self.sql_name = dotted(tuple(target.parts))
        self._present = False

    def check(self) -> None:
        """Raises PipelineError without such a catalog or schema, or for another's table."""
        name, schema = self._target.parts[0], dotted(tuple(self._target.parts[:-1]))
        setting = f"spark.sql.catalog.{name}"
        if name == _SESSION_CATALOG:
            self._check_session_catalog()
        elif self._spark.conf.get(setting, None) is None:
            raise PipelineError(
                f"{self._target}: Spark has no catalog {name}; give spark: its settings ({setting} and "
                f"{setting}....), or write {self._target.format}:./{self._target.location} for a folder"
            )
        self._uncached(self._spark)
        if not self._spark.catalog.databaseExists(schema):
            raise PipelineError(
                f"{self._target}: the catalog has no schema {schema}; create it: CREATE SCHEMA {schema}"
            )
        if not self.exists() and self._target.files is None and self._is_unity(setting):
            raise PipelineError(
                f"{self._target}: without files:, Unity Catalog would manage the table and its commits, "
                "which a pipeline reads itself; set files: to a folder or URI for the table's files"
            )

    def _is_unity(self, setting: str) -> bool:
        return str(self._spark.conf.get(setting, "")).endswith(".UCSingleCatalog")

    def _check_session_catalog(self) -> None:
        if _forgets_names(self._spark):
            raise PipelineError(
                f"{self._target}: the names in this spark_catalog are lost when Spark ends; set "
                "spark.sql.catalogImplementation: hive for a metastore, or name another catalog"
            )

    def exists(self) -> bool:
        """Whether there is a table.

        Raises PipelineError if it has another format, or the state is not the one that it was written with.
        """
        if not self._present and self._spark.catalog.tableExists(self.sql_name):
            self._check_owner()
            self._present = True
        return self._present

    def _check_owner(self) -> None:
        provider = self._detail("Provider").lower()
        if provider != self._target.format:
            raise PipelineError(
                f"{self._target}: there is a table of the format {provider or 'unknown'} already; "
                "name another table"
            )
        properties = _properties(self._spark, self.sql_name)
        writer = properties.get(_TABLE_ID)
        if writer is None:
            raise PipelineError(
                f"{self._target}: no pipeline has created this table; name one that does not exist"
            )
        own = self._state_id
        if writer != own:
            takeover = (
                "or, if it is gone and this one takes its place: "
                f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ({text(_TABLE_ID)} = {text(own)}, "
                f"{text(_STATE)} = {text(self._target.folder)})"
                if own
                else "or write another table"
            )
            raise PipelineError(
                f"{self._target}: was written with another state than the one in {self._target.folder}: with "
                f"that in {properties.get(_STATE)}; name that folder by state:, {takeover}"
            )

    @property
    def _state_id(self) -> str | None:
        return _id_of(StateFolder(self._target.folder))

    @property
    def first_properties(self) -> Mapping[str, str]:
        """The properties with which the table is created; Spark takes one as its location."""
        found = self._state_id
        assert found is not None, "a table is created by the first batch, and the state has begun before"
        given = {_TABLE_ID: found, _STATE: self._target.folder}
        if (files := self._target.files) is not None:
            path = local_path(files)
            given[_LOCATION] = files if path is None else f"file://{path}"  # Unity takes no plain path
        return given

    @property
    def location(self) -> str:
        """Where the catalog keeps the files of the table, which exists."""
        return self._detail("Location")

    def _detail(self, name: str) -> str:
        rows = self._spark.sql(f"DESCRIBE TABLE EXTENDED {self.sql_name}").collect()
        names = [row.col_name for row in rows]
        # A column of the table may have the same name.
        after = rows[names.index(_DETAILS) if _DETAILS in names else 0 :]
        return next((str(row.data_type) for row in after if row.col_name == name), "")

    def in_session(self, session: SparkSession) -> str:
        """The table's name in SQL statements of this session, which then see its last commit."""
        self._uncached(session)
        catalog = self._loaded_catalog(session)
        if catalog is not None and catalog.getClass().getSimpleName() == "CachingCatalog":
            session.sql(f"REFRESH TABLE {self.sql_name}")
        return self.sql_name

    def _uncached(self, session: SparkSession) -> None:
        setting = f"spark.sql.catalog.{self._target.parts[0]}.cache-enabled"
        if self._target.format == "iceberg" and session.conf.get(setting, None) is None:
            session.conf.set(setting, "false")

    def _loaded_catalog(self, session: SparkSession) -> Any:
        """Iceberg's own object for the catalog; None for a catalog of another kind."""
        if self._target.format != "iceberg":
            return None
        plugin = session._jsparkSession.sessionState().catalogManager().catalog(self._target.parts[0])
        return plugin.icebergCatalog()


def state_of_table(told: str, name: str, table_format: str | None) -> StateFolder:
    """The folder of the state of a table, by what its catalog says.

    The catalog is configured by the session that runs, or else by Spark's own files (spark-defaults.conf): a
    session is started to ask it, and ended. Messages call the table `told`. Raises PipelineError.
    """
    remedy = "name the pipeline by its YAML file, or by the folder of its state"
    with brief_session(table_format) as spark:
        properties = _asked_for_properties(spark, told, name, remedy)
    if _STATE not in properties:
        raise PipelineError(f"{told}: no pipeline has created this table; name another one")
    folder = StateFolder(properties[_STATE])
    if (found := _id_of(folder)) is None:
        raise PipelineError(
            f"{told}: the state that it was created with, {folder.location}, is not here; {remedy}"
        )
    if found != properties.get(_TABLE_ID):
        raise PipelineError(
            f"{told}: the state that it was created with, {folder.location}, is of another table now; "
            f"{remedy}"
        )
    return folder


def _asked_for_properties(spark: SparkSession, told: str, name: str, remedy: str) -> dict[str, str]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    catalog, sql_name = name.partition(".")[0], dotted(tuple(name.split(".")))
    if catalog == _SESSION_CATALOG:
        lacking = "spark.sql.catalogImplementation" if _forgets_names(spark) else None
    else:
        setting = f"spark.sql.catalog.{catalog}"
        lacking = setting if spark.conf.get(setting, None) is None else None
    if lacking is not None:
        raise PipelineError(
            f"{told}: Spark has no catalog {catalog}; give Spark its settings ({lacking} and the "
            f"like, in {defaults_file()}), or {remedy}"
        )
    try:
        if spark.catalog.tableExists(sql_name):
            return _properties(spark, sql_name)
    except (PySparkException, Py4JError) as error:
        # The JVM is asked for the text, so before it ends.
        raise PipelineError(f"{told}: the catalog cannot be asked ({_reason(error)}); {remedy}") from None
    raise PipelineError(
        f"{told}: the catalog has no such table; correct the name, or {remedy} if it has not run"
    )


def _forgets_names(spark: SparkSession) -> bool:
    """Whether the names in `spark_catalog` are lost when Spark ends."""
    own = spark.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", "")
    in_memory = spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
    return in_memory and (not own or own.endswith(".DeltaCatalog"))


def _properties(spark: SparkSession, sql_name: str) -> dict[str, str]:
    return dict(spark.sql(f"SHOW TBLPROPERTIES {sql_name}").collect())


def _id_of(folder: StateFolder) -> str | None:
    """The id that the table of this state has."""
    known = folder.read_json("incarnation.json") or {}
    found = known.get("table_id") or known.get("id")
    return None if found is None else str(found)


def _reason(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    return first_line(error if thrown is None else RuntimeError(str(thrown)))
