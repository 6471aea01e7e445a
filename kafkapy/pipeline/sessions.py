"""The Spark session of one command.

It is the caller's, the one that runs already, or one of the command's own.
"""

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
    """A session with what the pipeline's table needs.

    Only a session that was made here is stopped at the end.
    """
    if spark is not None:
        yield spark
        return
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from kafkapy.spark import session

    # Not the active session, which a thread that did not make it does not have.
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
        yield found
    finally:
        if not borrowed:
            with contextlib.suppress(Py4JError, OSError):  # of a JVM that was killed
                found.stop()
