"""The Spark session of one command: the caller's, or one of its own that is stopped at the end.

What Spark refuses while it works for the command becomes one line; Spark's own report of it is a page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_for(
    definition: PipelineDefinition,
    doing: str,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
) -> Iterator[SparkSession]:
    """`doing` is the command, for the messages and Spark's list of applications: `audit`, `replay`."""
    from kafkapy.spark import session

    own = None
    if spark is None:
        own = spark = session(
            definition.lake,
            master=master or definition.master,
            app_name=f"{doing} {definition.name}",
            conf=definition.spark,
        )
    from pyspark.errors import PySparkException

    try:
        yield spark
    except PySparkException as error:
        raise PipelineError(f"{doing} {definition.name}: Spark failed: {first_line(error)}") from error
    finally:
        if own is not None:
            own.stop()


def first_line(error: Exception) -> str:
    """What Spark says is wrong, without its plans and stack traces."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
