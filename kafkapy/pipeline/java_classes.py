"""The classes of Spark's JVM, asked for by their full names.

py4j also reaches them as `spark._jvm.org.apache.…`. Then it asks Java for every part of the name, and Java
searches all of Spark's jars for classes that are called `org` and `org.apache`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """The class of that full name, to be called or to call its static methods."""
    return getattr(spark._jvm, name)
