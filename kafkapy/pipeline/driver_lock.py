"""The session and the locks of the one driver that may write a table.

A driver is two processes. On a local disk each has a lock. When the Python process is killed, its lock is
free (`stores/local_store.py`). The JVM notices that its standard input is closed, but it may still finish a
commit, and the next driver would write the same batch at the same time. So the JVM locks a file too
(java.nio.channels.FileLock, released however the process ends), and the next driver waits for it. Nothing
else may open that file: a process loses its POSIX lock when it closes any descriptor of the file.

In other stores one lease stands for both processes (`stores/lease.py`). The JVM writes it, so it is taken
when the session has started.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 120.0  # seconds; a JVM whose Python process has ended exits within a few seconds


@contextlib.contextmanager
def driver(
    definition: PipelineDefinition,
    state: State,
    session: Callable[[], AbstractContextManager[SparkSession]],
    *,
    locked: Callable[[], None] = lambda: None,
) -> Iterator[SparkSession]:
    """A session that may write the table, with the locks.

    `session` opens it (`spark_for`). `locked` is called with the first lock.
    """
    if definition.table.local_path is None:
        with session() as spark, state.lock():
            locked()
            yield spark
        return
    # A second driver is refused before it starts Spark.
    with state.lock():
        locked()
        with session() as spark, _jvm_lock(definition, state, spark):
            yield spark


@contextlib.contextmanager
def _jvm_lock(definition: PipelineDefinition, state: State, spark: SparkSession) -> Iterator[None]:
    from py4j.protocol import Py4JError

    from kafkapy.pipeline.java_classes import java_class

    path = f"{definition.table.local_path}/{state.FOLDER}/jvm.lock"
    file = java_class(spark, "java.io.RandomAccessFile")(path, "rw")
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
