"""The lock that Spark's JVM holds while it writes for a pipeline.

It complements the driver's own lock (`State.lock`), since a driver is two processes. When the Python process
is killed, the JVM notices that its standard input is closed, but it may still finish a commit. Python's lock
is free by then, and the next driver would write the same batch at the same time. So the JVM locks a file too
(java.nio.channels.FileLock, released however the process ends), and the next driver waits for it. Nothing
else may open that file: a process loses its POSIX lock when it closes any descriptor of the file.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.java_classes import java_class
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 120.0  # seconds; a JVM whose Python process has ended exits within a few seconds


@contextlib.contextmanager
def driver_lock(definition: PipelineDefinition, state: State, spark: SparkSession) -> Iterator[None]:
    """Holds the JVM's lock.

    The caller holds the state's lock. A store without locks (S3, HDFS) is not locked.
    """
    if definition.table.local_path is None:
        yield
        return
    from py4j.protocol import Py4JError

    file = java_class(spark, "java.io.RandomAccessFile")(f"{state.root}/jvm.lock", "rw")
    try:
        deadline = time.monotonic() + _PATIENCE
        while file.getChannel().tryLock() is None:
            if time.monotonic() >= deadline:
                raise PipelineError(
                    f"{definition.name}: the Spark process of a killed driver is still running; "
                    "stop its java process and start again"
                )
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM has ended, which released the lock
            file.close()
