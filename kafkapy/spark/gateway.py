"""The JVM of a session, whose standard error is relayed line by line.

On every start Java prints a warning about the module that Spark uses for vectors, whatever the log settings
are. Amazon's SDK has a logging library of its own, which prints that it logs nothing. The relay drops these
lines. It holds back the lines that the JVM prints before it answers. If the JVM ends, one of them is shown as
the reason, without the stack trace.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

from kafkapy.spark.setup_error import SparkSetupError

if TYPE_CHECKING:
    from pyspark import SparkConf

_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector", b"SLF4J: ")
_NO_REASON = ("NOTE: ", "Picked up ", "WARNING")  # the start of Java's notes on options in its environment


def launch(conf: SparkConf) -> Any:
    """Return pyspark's gateway to a new JVM.

    Raises:
        SparkSetupError: the JVM does not start.
    """
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    receiving, sending = os.pipe()
    relay = _Relay(receiving)
    relay.start()
    try:
        gateway = launch_gateway(conf, {"stderr": sending})
    except PySparkException:
        gateway = None
    finally:
        os.close(sending)
    if gateway is None:
        relay.join(5)
        raise SparkSetupError(
            f"Spark's JVM ended at once ({relay.reason()})",
            "correct the settings, or see `kafkapy spark doctor`",
        )
    relay.release()
    return gateway


def end_jvm() -> None:
    """End the JVM that a stopped session has left; its jars and memory cannot be changed."""
    from pyspark import SparkContext

    left = SparkContext._gateway
    if left is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    left.shutdown()
    left.proc.stdin.close()  # the JVM then ends
    left.proc.wait()


class _Relay(threading.Thread):
    """Copies a pipe to standard error, from `release` on."""

    def __init__(self, receiving: int) -> None:
        super().__init__(name="spark-stderr", daemon=True)
        self._receiving = receiving
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()

    def run(self) -> None:
        with open(self._receiving, "rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                if not line.startswith(_NOISE):
                    with self._lock:
                        self._tell(line)

    def _tell(self, line: bytes) -> None:
        if self._held is None:
            # Not through sys.stderr, whose lock a daemon thread may hold while the interpreter ends.
            os.write(2, line)
        else:
            self._held.append(line)

    def release(self) -> None:
        with self._lock:
            held, self._held = self._held or [], None
            for line in held:
                self._tell(line)

    def reason(self) -> str:
        """Return the first line that was held back, without the name of an exception before it."""
        with self._lock:
            lines = [line.decode(errors="replace").strip() for line in self._held or []]
        said = [line for line in lines if line and not line.startswith(_NO_REASON)]
        return said[0].rpartition("Exception: ")[2] if said else "it said nothing"
