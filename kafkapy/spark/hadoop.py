"""Hadoop's file systems, in the JVM of a session or in one without.

A running session's settings count (`spark.hadoop.fs.s3a.endpoint` and the like). Without a session a JVM is
started that has the same jars. Its settings are those that are given, and Spark's and Hadoop's own files
(spark-defaults.conf, core-site.xml). It starts sooner than a session does, and the next session ends it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kafkapy.spark.installation import find_spark
from kafkapy.spark.sessions import start_jvm
from kafkapy.spark.setup_error import SparkSetupError

# The package with the class of a scheme, as the setting spark.jars.packages takes it.
_PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasb": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasbs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:VERSION",
}
_OTHERS: Final = {
    "s3": "write s3a:",
    "s3n": "write s3a:",
    "dbfs": "it is there on Databricks' own clusters only",
}

_bare: tuple[object, Mapping[str, str]] | None = None
"""The JVM without a session that was started here, and its settings."""


def file_system(location: str, conf: Mapping[str, str]) -> tuple[Any, Any]:
    """Return the JVM and its Hadoop FileSystem for a URI.

    `conf` are the settings that Spark would be started with, if none runs.

    Raises:
        SparkSetupError: the JVM does not start, or lacks the file system.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    scheme = location.partition(":")[0]
    if SparkContext._active_spark_context is None:
        configuration = _without_session(conf, scheme)
    else:
        from pyspark.sql import SparkSession

        # Not getActiveSession: a session is active only in the thread that created it.
        session = SparkSession.builder.getOrCreate()
        configuration = session._jsparkSession.sessionState().newHadoopConf()
    jvm = SparkContext._jvm
    try:
        path = getattr(jvm, "org.apache.hadoop.fs.Path")(location)
        return jvm, path.getFileSystem(configuration)
    except (Py4JJavaError, PySparkException) as error:
        told = str(error.java_exception if isinstance(error, Py4JJavaError) else error).partition("\n")[0]
    if re.search(r"No FileSystem for scheme|ClassNotFoundException|NoClassDefFoundError", told):
        raise SparkSetupError(f"Spark has no file system for {scheme}: here", _remedy(scheme))
    raise SparkSetupError(f"{location} cannot be reached ({told})", "correct it, or the settings of Spark")


def _without_session(conf: Mapping[str, str], scheme: str) -> Any:
    """Return the configuration of a JVM without a session.

    It is started if there is none with these settings.
    """
    from pyspark import SparkContext

    global _bare
    if _bare is None or _bare[0] is not SparkContext._gateway or _bare[1] != conf:
        start_jvm(conf, scheme)
        _bare = SparkContext._gateway, dict(conf)
    jvm = SparkContext._jvm
    settings = getattr(jvm, "org.apache.spark.SparkConf")(True)
    for name, value in conf.items():
        settings.set(name, value)
    return getattr(jvm, "org.apache.spark.deploy.SparkHadoopUtil").get().newConfiguration(settings)


def _remedy(scheme: str) -> str:
    package = _PACKAGES.get(scheme)
    if package is None:
        return _OTHERS.get(scheme, "add the jar of its Hadoop file system by the setting spark.jars.packages")
    return f"add its jar by the setting spark.jars.packages={package.format(hadoop=find_spark().hadoop)}"
