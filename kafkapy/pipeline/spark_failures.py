"""What Spark refuses while it works for a command, as one line; Spark's own report of it is a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.stream_failures import explain


@contextlib.contextmanager
def spark_failures(definition: PipelineDefinition) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with _silent():
            yield
    except (PySparkException, Py4JError) as error:
        raise explain(error, definition).error from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """pyspark 4 also prints each error as a line of JSON with its stack trace."""
    from pyspark.logger import PySparkLogger

    names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    loggers = [logger for name in names if not (logger := PySparkLogger.getLogger(name)).disabled]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def first_line(error: Exception) -> str:
    """What is wrong with a piece of SQL, without the plan."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
