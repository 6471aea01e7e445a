"""The lock that Spark's JVM holds while it writes for a pipeline.

It comes in addition to the driver's own lock (`State.lock`). The driver is two processes. When Python is
killed, the JVM learns of it by its closed standard input. It may still finish its present commit. By then
Python's lock is free, and the next driver would write the same batch beside it. So the JVM locks a file too
(java.nio.channels.FileLock, released however the process ends), and the next driver waits for it. Nothing
else may open that file: a POSIX lock goes with the first descriptor that its process closes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 120.0  # seconds; a JVM without its Python ends within a few


@contextlib.contextmanager
def driver_lock(definition: PipelineDefinition, state: State, spark: SparkSession) -> Iterator[None]:
    """For the holder of the state's lock. A store without locks (S3, HDFS) is not locked."""
    if definition.table.local_path is None:
        yield
        return
    from py4j.protocol import Py4JError

    jvm = spark._jvm
    file = jvm.java.io.RandomAccessFile(f"{state.root}/jvm.lock", "rw")
    try:
        deadline = time.monotonic() + _PATIENCE
        while file.getChannel().tryLock() is None:
            if time.monotonic() >= deadline:
                raise PipelineError(
                    f"{definition.name}: the Spark of a driver that was killed still runs; "
                    "end its java process, and start again"
                )
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(Py4JError, OSError):  # of a JVM that has ended, and the lock with it
            file.close()
