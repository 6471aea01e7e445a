"""Hadoop's file systems, in the JVM of a session or in one without.

A running session's settings count (`spark.hadoop.fs.s3a.endpoint` and the like). Without a session a JVM is
started that has the same jars. Its settings are those that are given, and Spark's and Hadoop's own files
(spark-defaults.conf, core-site.xml). It starts sooner than a session does, and the next session ends it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any, Final

from kafkapy.spark.checks import as_stores
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
}
_OTHERS: Final = {
    "gs": "make the session with kafkapy.spark.session(store='gs'), which brings its jar",
    "s3": "write s3a:",
    "s3n": "write s3a:",
    "dbfs": "it is there on Databricks' own clusters only",
}


class _Bare:
    """A JVM without a session: its jars, and its file systems by place and settings.

    Hadoop's own cache of file systems knows the place alone, and tables in one place may have two logins.
    """

    def __init__(self, gateway: object, jars: tuple[str, ...]) -> None:
        self.gateway, self.jars = gateway, jars
        self.file_systems: dict[tuple[str, ...], Any] = {}


_bare: _Bare | None = None
_opening = threading.Lock()


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
    try:
        if SparkContext._active_spark_context is None:
            with _opening:
                found = _without_session(location, conf, scheme)
        else:
            found = _of_session(location)
        return SparkContext._jvm, found
    except (Py4JJavaError, PySparkException) as error:
        told = str(error.java_exception if isinstance(error, Py4JJavaError) else error).partition("\n")[0]
    if re.search(r"No FileSystem for scheme|ClassNotFoundException|NoClassDefFoundError", told):
        raise SparkSetupError(f"Spark has no file system for {scheme}: here", _remedy(scheme))
    raise SparkSetupError(f"{location} cannot be reached ({told})", "correct it, or the settings of Spark")


def _of_session(location: str) -> Any:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Not getActiveSession: a session is active only in the thread that created it.
    session = SparkSession.builder.getOrCreate()
    path = getattr(SparkContext._jvm, "org.apache.hadoop.fs.Path")(location)
    return path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())


def _without_session(location: str, conf: Mapping[str, str], scheme: str) -> Any:
    """Return the file system of a JVM without a session.

    It is started if there is none with the jars for this.
    """
    from pyspark import SparkContext

    global _bare
    jars = (*as_stores(scheme), *(f"{name}={conf[name]}" for name in conf if ".jars" in name))
    if _bare is None or _bare.gateway is not SparkContext._gateway or not set(jars) <= set(_bare.jars):
        start_jvm(conf, scheme)
        _bare = _Bare(SparkContext._gateway, jars)
    jvm = SparkContext._jvm
    uri = getattr(jvm, "org.apache.hadoop.fs.Path")(location).toUri()
    place = (scheme, str(uri.getAuthority()), *(f"{name}={conf[name]}" for name in sorted(conf)))
    if place not in _bare.file_systems:
        settings = getattr(jvm, "org.apache.spark.SparkConf")(True)
        for name, value in conf.items():
            settings.set(name, value)
        hadoop = getattr(jvm, "org.apache.spark.deploy.SparkHadoopUtil").get()
        opened = getattr(jvm, "org.apache.hadoop.fs.FileSystem").newInstance(
            uri, hadoop.newConfiguration(settings)
        )
        _bare.file_systems[place] = opened
    return _bare.file_systems[place]


def _remedy(scheme: str) -> str:
    package = _PACKAGES.get(scheme)
    if package is None:
        return _OTHERS.get(scheme, "add the jar of its Hadoop file system by the setting spark.jars.packages")
    return f"add its jar by the setting spark.jars.packages={package.format(hadoop=find_spark().hadoop)}"
