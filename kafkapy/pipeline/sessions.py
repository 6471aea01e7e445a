"""The Spark session of one command: the caller's, the running one, or a new one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkapy.pipeline.definition import PipelineDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def spark_for(definition: PipelineDefinition, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """A session that can write the pipeline's table.

    Only a session created here is stopped at the end. Raises SparkSetupError if `spark` lacks something,
    and PipelineError if its machines do not reach the table.
    """
    if spark is not None:
        from kafkapy.spark import require

        require(spark, definition.lake)
        _check_reach(definition, spark)
        yield spark
        return
    if definition.master is not None:
        definition.table.check_reach(definition.master)
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from kafkapy.spark import session

    # Not getActiveSession: a session is active only in the thread that created it.
    borrowed = SparkContext._active_spark_context is not None
    if not borrowed:
        logger.info("Starting Spark")
    found = session(
        definition.lake,
        master=definition.master,
        app_name=f"kafkapy {definition.name}",
        conf=definition.spark_options,
    )
    try:
        _check_reach(definition, found)
        yield found
    finally:
        if not borrowed:
            with contextlib.suppress(Py4JError, OSError):  # the JVM was killed
                found.stop()


def _check_reach(definition: PipelineDefinition, spark: SparkSession) -> None:
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    definition.table.check_reach(spark.sparkContext.master, settings.get("fs.defaultFS"))
