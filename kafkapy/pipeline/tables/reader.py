"""Spark's reader of files, for paths that are no patterns."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession


def reader(session: SparkSession) -> DataFrameReader:
    """A reader that takes the characters `[]{}*?` of a path as they are.

    Otherwise Spark takes such a path for a pattern, which the path itself may not fit. The option is one of
    Spark's own (`DataSource.GLOB_PATHS_KEY`), and works for its file formats.
    """
    return session.read.option("__globPaths__", "false")
