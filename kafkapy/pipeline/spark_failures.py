"""Turns an error of Spark into one line.

Spark's own report fills a page.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.stream_failures import explain


@contextlib.contextmanager
def spark_failures(definition: PipelineDefinition) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with silent():
            yield
    except (PySparkException, Py4JError, OSError) as error:
        raise explain(error, definition).error from error


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Silences what pyspark and py4j log about an error, which is raised anyway.

    The outermost one counts, so that pipelines in threads within it do not undo it for each other. pyspark 4
    logs each error as a line of JSON with its stack trace. py4j logs errors that pass between Python and
    Java, some of them through the root logger.
    """
    from pyspark.logger import PySparkLogger

    names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    found = [PySparkLogger.getLogger(name) for name in names]
    found += [logging.getLogger(name) for name in ("py4j.clientserver", "py4j.java_gateway")]
    loggers = [logger for logger in found if not logger.disabled]
    for logger in loggers:
        logger.disabled = True
    outermost = _no_gateway_failures not in logging.root.filters
    if outermost:
        logging.root.addFilter(_no_gateway_failures)
    try:
        yield
    finally:
        if outermost:
            logging.root.removeFilter(_no_gateway_failures)
        for logger in loggers:
            logger.disabled = False


def _no_gateway_failures(record: logging.LogRecord) -> bool:
    return not (record.module in ("clientserver", "java_gateway") and record.exc_info)
