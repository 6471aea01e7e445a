"""The JVM of a session, its standard error relayed line by line.

Java announces the module that Spark uses for vectors on every start, whatever the log settings are; the relay
drops that line. The last lines are kept: when the JVM ends before it answers, they say why.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from kafkapy.spark.setup_error import SparkSetupError

if TYPE_CHECKING:
    from pyspark import SparkConf

_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector",)


def launch(conf: SparkConf) -> Any:
    """pyspark's gateway to a new JVM; raises SparkSetupError when that does not start."""
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    receiving, sending = os.pipe()
    last: deque[str] = deque(maxlen=20)
    relay = threading.Thread(target=_relay, args=(receiving, last), name="spark-stderr", daemon=True)
    relay.start()
    try:
        return launch_gateway(conf, {"stderr": sending})
    except PySparkException:
        told = None
    finally:
        os.close(sending)
    relay.join(5)
    told = next((line for line in last if "Error" in line or "Exception" in line), "it said nothing")
    raise SparkSetupError(
        f"Spark's JVM ended at once ({told})", "`kafkapy spark doctor` looks for the reason"
    )


def end_jvm() -> None:
    """End the JVM that a stopped session has left, if any: its jars and its memory cannot be changed."""
    from pyspark import SparkContext

    left = SparkContext._gateway
    if left is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    left.shutdown()
    left.proc.stdin.close()  # upon which the JVM ends
    left.proc.wait()


def _relay(receiving: int, last: deque[str]) -> None:
    # Not through sys.stderr, whose lock a daemon thread may hold while the interpreter ends.
    with open(receiving, "rb") as lines, contextlib.suppress(OSError):
        for line in lines:
            if not line.startswith(_NOISE):
                last.append(line.decode(errors="replace").strip())
                os.write(2, line)
