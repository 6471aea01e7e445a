"""One version of a Delta table: its files and rows, and how they are changed.

A MERGE, and every other statement that Delta has, reads a table and lists its files several times. Here the
rows to be replaced are read once, with the file of each and its number therein. They are marked in deletion
vectors, and others are written, by Delta's own transaction. Its code is asked for with py4j, as Delta's Scala
API is not Java's: the names are those of Delta 4.4, the only version that `pipeline` is made for.

Delta writes the files of a version into its checksum file too, if they are few. Otherwise a job of Spark
reads the table's log to find them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkapy.pipeline.java_classes import java_class
from kafkapy.pipeline.tables.sql import text

_DELTA: Final = "org.apache.spark.sql.delta"
METADATA: Final = "_metadata"
"""Spark's facts about a row's file, in a column that each table of files has beside its own."""
FILE: Final = f"{METADATA}.file_path"
POSITION: Final = f"{METADATA}.row_index"


class DeltaFile(NamedTuple):
    """A file of a table; `partition` is JSON: [{"key": column, "value": ...}, ...]."""

    size: int
    partition: str


class DeltaVersion:
    """The last version of the table whose files are in `folder`."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session, self._folder = session, folder
        with self._active():
            self._log = self._class("DeltaLog").forTable(session._jsparkSession, folder)
            given = [getattr(self._log, f"update$default${number}")() for number in (1, 2, 3)]
            self._snapshot = self._log.update(*given)

    def read(self) -> DataFrame:
        """All rows, with the columns FILE and POSITION."""
        if (few := self._few_files) is None:  # of many, a filter by statistics may leave some out
            return self._session.read.format("delta").load(self._folder)
        with self._active():
            listed = self._log.createDataFrame(self._snapshot, few, False, self._none())
            return DataFrame(listed, self._session)

    def files(self) -> DataFrame | list[DeltaFile]:
        """The files; rows with the columns of DeltaFile if they are many."""
        with self._active():
            if (few := self._few_files) is not None:
                return [_file(json.loads(one.json())["add"]) for one in self._each(few)]
            partition = f.to_json(f.array_sort(f.map_entries("partitionValues"))).alias("partition")
            return DataFrame(self._snapshot.allFiles().toDF(), self._session).select("size", partition)

    def replace(self, marked: Mapping[str, Sequence[int]], rows: DataFrame | None) -> bool:
        """Marks rows as deleted, and inserts others, in one commit.

        `marked` has the positions of the rows by the path of their file, as `read` tells them. False, and
        nothing is changed, if a file has no statistics with its number of rows, which its marks need.
        """
        with self._active():
            present = self._by_name({path.rpartition("/")[2] for path in marked}) if marked else {}
            if any(one.numPhysicalRecords().isEmpty() for one in present.values()):
                return False
            transaction = self._log.startTransaction(self._none(), self._some(self._snapshot))
            transaction.readWholeTable()  # so that it fails if anybody else has committed
            actions = self._marks(marked, present) if marked else []
            if rows is not None:
                actions += self._each(transaction.writeFiles(rows._jdf))
            if actions:
                transaction.commit(self._sequence(actions), self._operation())
            return True

    def _marks(self, marked: Mapping[str, Sequence[int]], present: Mapping[str, Any]) -> list[Any]:
        """The actions that mark these rows.

        `present` are their files by name. The deletion vectors of all files are in one new file.
        """
        vectors = []
        for path, positions in marked.items():
            bitmap = self._class("deletionvectors.RoaringBitmapArray")()
            for position in positions:
                bitmap.add(position)
            serialized = bitmap.serializeAsByteArray(
                self._class("deletionvectors.RoaringBitmapArrayFormat").Portable()
            )
            vector = present[path.rpartition("/")[2]].deletionVector()
            before = self._none() if vector is None else self._some(vector.serializeToBase64())
            new_data = self._class("commands.DeletionVectorData")
            vectors.append(new_data(path, before, serialized, len(positions)))
        store = self._class("commands.DeletionVectorWriter").createMapperToStoreDeletionVectors(
            self._session._jsparkSession, self._log.newDeltaHadoopConf(), self._log.dataPath(), 0
        )
        actions = []
        for stored in self._each(store.apply(self._sequence(vectors).iterator()).toSeq()):
            file, vector = present[stored.filePath().rpartition("/")[2]], stored.deletionVector()
            if vector.cardinality() == file.numPhysicalRecords().get():
                actions.append(file.removeWithTimestamp(time.time_ns() // 1_000_000, True))
                continue
            changed = file.removeRows(vector, True, True)
            actions += [changed._1(), changed._2()]
        return actions

    @cached_property
    def _few_files(self) -> Any:
        """The files, if the checksum has them."""
        checksum = self._snapshot.checksumOpt()
        if checksum.isDefined() and checksum.get().allFiles().isDefined():
            return checksum.get().allFiles().get()
        return None

    def _by_name(self, names: set[str]) -> dict[str, Any]:
        """Those files by their names, which are unique."""
        files = self._few_files
        if files is None:
            listed = ", ".join(map(text, sorted(names)))
            files = self._snapshot.allFiles().filter(f"substring_index(path, '/', -1) IN ({listed})")
            files = files.collectAsList()
        named = ((one.path().rpartition("/")[2], one) for one in self._each(files))
        return {name: one for name, one in named if name in names}

    def _each(self, values: Any) -> Iterator[Any]:
        """The elements of a collection of Scala or Java."""
        following = values.iterator()
        while following.hasNext():
            yield following.next()

    def _operation(self) -> Any:
        append = java_class(self._session, "org.apache.spark.sql.SaveMode").Append
        return self._class("DeltaOperations$Write")(append, *[self._none()] * 8)

    def _class(self, name: str) -> Any:
        return java_class(self._session, f"{_DELTA}.{name}")

    def _sequence(self, values: Any) -> Any:
        return java_class(self._session, "org.apache.spark.api.python.PythonUtils").toSeq(values)

    def _none(self) -> Any:
        return java_class(self._session, "scala.Option").empty()

    def _some(self, value: Any) -> Any:
        return java_class(self._session, "scala.Option").apply(value)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Lets Delta, which asks for the thread's session, find the one with the settings."""
        sessions = java_class(self._session, "org.apache.spark.sql.classic.SparkSession")
        before = sessions.getActiveSession()
        sessions.setActiveSession(self._session._jsparkSession)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()


def _file(added: Mapping[str, Any]) -> DeltaFile:
    values = sorted(added["partitionValues"].items())
    return DeltaFile(added["size"], json.dumps([{"key": name, "value": value} for name, value in values]))
