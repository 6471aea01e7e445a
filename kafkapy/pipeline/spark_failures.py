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
        yield
    except (PySparkException, Py4JError) as error:
        raise explain(error, definition).error from error


def first_line(error: Exception) -> str:
    """What is wrong with a piece of SQL, without the plan."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
