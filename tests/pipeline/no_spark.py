"""A Spark session that lacks nothing, for code that only passes it on."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock


def no_spark() -> Any:
    """A session of this machine, whose JVM gives every lock and has every class."""
    session = MagicMock()
    session.sparkContext.master = "local[2]"
    session.conf.get.return_value = (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )
    session._jsparkSession.sessionState().newHadoopConf().get.return_value = "file:///"
    session.sparkContext._gateway._callback_server = "runs"
    return session
