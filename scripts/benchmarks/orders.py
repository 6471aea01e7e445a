"""Orders as JSON of some 100 bytes, and the session of Spark that works on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from interop.support.maven import CACHE
from kafkapy.spark import session
from scripts.benchmarks.meter import Meter, Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS: Final = 4
"""An order is in that of its account, modulo their number."""
SCHEMA: Final = "id BIGINT, account STRING, amount DOUBLE, currency STRING, note STRING"


def order(number: int, account: str, amount: float) -> bytes:
    """The value of a record."""
    value = {
        "id": number,
        "account": account,
        "amount": amount,
        "currency": "EUR",
        "note": f"order {number}",
    }
    return json.dumps(value).encode()


def new_session(table: str, **settings: str) -> SparkSession:
    """A session for tables of this format, with two cores and 2 GiB."""
    conf = {
        "spark.driver.memory": "2g",
        "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
        "spark.ui.enabled": "false",
        **settings,
    }
    return session(table, master="local[2]", app_name="bench", conf=conf)


def stopwatch(spark: SparkSession) -> Stopwatch:
    """Of the JVM with Python's workers."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    return Stopwatch(Meter(jvm, descendants=True))
