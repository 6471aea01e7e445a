"""Where the state of a pipeline is: a local folder, or what Hadoop's file systems reach.

A local folder is read and written by Python alone, so that `status`, `create` and `dlq` need no JVM for it,
and its locks are the operating system's, which a killed process cannot leave behind. For all other stores
there is one way, the file system through which Spark writes the table itself: its jars, its endpoint, its
credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.pipeline.stores.hadoop_files import HadoopFiles
from kafkapy.pipeline.stores.local_store import LocalStore
from kafkapy.pipeline.stores.shared_store import SharedStore
from kafkapy.pipeline.stores.store import Entry, Store
from kafkapy.pipeline.table_target import local_path

__all__ = ["Entry", "HadoopFiles", "Store", "open_store"]


def open_store(location: str, spark_options: Mapping[str, str] | None = None) -> Store:
    """The store with the folder at `location`, a path or a URI; nothing is reached yet.

    `spark_options` are those that Spark is started with, if it does not run already.
    """
    local = local_path(location)
    if local is None:
        return SharedStore(HadoopFiles(location, spark_options))
    return LocalStore(local.absolute())
