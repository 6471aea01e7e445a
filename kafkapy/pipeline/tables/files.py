"""Files of a table through Hadoop's FileSystem, as Spark reaches them.

A rename is atomic on local disks and HDFS. An object store has no rename: S3's connector copies and deletes
file by file. A reader may then see part of a folder for a moment, and a killed writer leaves both folders.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kafkapy.pipeline.java_classes import java_class


class Files:
    """The folder at `location`; paths are relative to it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._new_path = java_class(spark, "org.apache.hadoop.fs.Path")
        self._base = self._new_path(location)
        self._filesystem = self._base.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def _path(self, name: str) -> Any:
        return self._new_path(self._base, name) if name else self._base

    def uri(self, name: str) -> str:
        return str(self._path(name).toString())

    def exists(self, name: str) -> bool:
        return bool(self._filesystem.exists(self._path(name)))

    def names(self, name: str = "") -> list[str]:
        """The names in a folder, sorted; none when it does not exist."""
        if not self.exists(name):
            return []
        return sorted(str(one.getPath().getName()) for one in self._filesystem.listStatus(self._path(name)))

    def rename(self, name: str, other: str) -> None:
        """Renames a file or folder.

        `other` must not exist, since Hadoop would move `name` into it.
        """
        if self.exists(other):
            raise FileExistsError(self.uri(other))
        self._filesystem.mkdirs(self._path(other).getParent())
        if not self._filesystem.rename(self._path(name), self._path(other)):
            raise OSError(f"{self.uri(name)} could not be renamed to {self.uri(other)}")

    def delete(self, name: str) -> bool:
        """Deletes a file, or a folder with its content.

        Returns whether it existed.
        """
        return bool(self._filesystem.delete(self._path(name), True))

    def read_text(self, name: str) -> str:
        stream = self._filesystem.open(self._path(name))
        try:
            return str(java_class(self._spark, "java.lang.String")(stream.readAllBytes(), "UTF-8"))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        stream = self._filesystem.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
