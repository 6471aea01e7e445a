"""The Spark session of one command: the caller's, the running one, or a new one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

# Pipelines take turns: a large batch of one does not hold up the small ones of others.
_FAIR: Final = {"spark.scheduler.mode": "FAIR"}


@contextlib.contextmanager
def spark_for(definition: PipelineDefinition, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """A session that can write the pipeline's table.

    Only a session created here is stopped at the end. Raises SparkSetupError if `spark` lacks something,
    and PipelineError if its machines do not reach the table.
    """
    if spark is not None:
        from kafkapy.spark import require

        require(spark, definition.lakes, definition.table.scheme)
        _check_reach(definition, spark)
        yield spark
        return
    if definition.master is not None:
        _check_places(definition, definition.master)
    name, store = f"kafkapy {definition.name}", definition.table.scheme
    with _started(definition.lakes, store, definition, name, definition.spark_options) as found:
        _check_reach(definition, found)
        yield found


@contextlib.contextmanager
def spark_for_all(
    definitions: Sequence[PipelineDefinition], spark: SparkSession | None = None
) -> Iterator[SparkSession]:
    """A session that can write the tables of all these pipelines.

    They have the same `spark` and `master`. Each of them then takes a session of its own (`own_session`), and
    checks that.
    """
    if spark is not None:
        yield spark
        return
    first = definitions[0]
    lakes = sorted({lake for one in definitions for lake in one.lakes})
    options = {**_FAIR, **first.spark_options}
    store = store_of(definitions)
    with _started(lakes, store, first, f"kafkapy {len(definitions)} pipelines", options) as found:
        yield found


def store_of(definitions: Iterable[PipelineDefinition]) -> str | None:
    """The store of tables whose connector Spark needs; None for local folders."""
    return next((one.table.scheme for one in definitions if one.table.scheme is not None), None)


def own_session(spark: SparkSession, pool: str) -> SparkSession:
    """A session for one of many threads, with SQL settings and a scheduling pool of its own.

    It begins with the settings of `spark`.
    """
    from pyspark.sql import SparkSession

    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


@contextlib.contextmanager
def _started(
    lakes: Sequence[str],
    store: str | None,
    definition: PipelineDefinition,
    app_name: str,
    options: Mapping[str, str],
) -> Iterator[SparkSession]:
    """The session that runs in this process, or a new one, which is stopped at the end."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from kafkapy.spark import session

    # Not getActiveSession: a session is active only in the thread that created it.
    borrowed = SparkContext._active_spark_context is not None
    if not borrowed:
        logger.info("Starting Spark")
    found = session(lakes, master=definition.master, app_name=app_name, conf=options, store=store)
    try:
        yield found
    finally:
        if not borrowed:
            with contextlib.suppress(Py4JError, OSError):  # the JVM was killed
                found.stop()


def _check_reach(definition: PipelineDefinition, spark: SparkSession) -> None:
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    _check_places(definition, spark.sparkContext.master, settings.get("fs.defaultFS"))


def _check_places(definition: PipelineDefinition, master: str, default_store: str | None = None) -> None:
    definition.table.check_reach(master, default_store)
    for one in definition.join:
        one.check_reach(master, default_store)
