"""This broker's own metadata, `metadata.db`: read without a change to it, and written anew."""

from __future__ import annotations

from kafkapy.metadata import znodes
from kafkapy.metadata.image import read_image
from kafkapy.metadata.sqlite_tree import SqliteTree
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.cluster import Cluster, cluster_nodes
from kafkapy.tools.migrate.migration_error import MigrationError

_WAL_SUFFIX = "-wal"


def read_metadata(files: FileSystem, path: str, scratch: str, node_id: int) -> Cluster:
    """The cluster that a metadata.db describes.

    It is read from a copy below `scratch`, which is deleted again: opening the file itself would put its
    write-ahead log in order.

    Topics that are being deleted are left out.

    Raises:
        MigrationError: it is damaged.
        OSError: it cannot be copied.
    """
    copies = []
    for suffix in ("", _WAL_SUFFIX):
        if files.exists(path + suffix):
            copies.append(f"{scratch}/metadata.db.read{suffix}")
            files.copy(path + suffix, copies[-1])
    try:
        tree = SqliteTree(copies[0], sync=False)
        try:
            nodes = tree.subtree("/")
        finally:
            tree.close()
        image = read_image(nodes)
        deleted = [
            name for name in image.topics if znodes.delete_topic_path(name) in nodes
        ]  # a deletion that the last stop interrupted
        block = nodes[znodes.PRODUCER_ID_BLOCK].data
        next_producer_id = znodes.decode_producer_id_block(block).last + 1 if block else 0
    except (MetadataStoreError, KeyError) as error:
        raise MigrationError(f"{path} cannot be understood: {error}") from None
    finally:
        for copy in copies:
            files.unlink(copy)
            files.unlink(copy + "-shm")
        files.unlink(f"{scratch}/metadata.db.read{_WAL_SUFFIX}")
    return Cluster(node_id, image.with_topics(deleted=deleted), next_producer_id)


def write_metadata(path: str, cluster: Cluster) -> None:
    """Make a metadata.db, on disk when this returns.

    Raises:
        MigrationError: it cannot be written.
    """
    try:
        tree = SqliteTree(path, sync=True)
        try:
            tree.begin()
            tree.apply([Create(path, data) for path, data in cluster_nodes(cluster)], 0)
            tree.commit()
        finally:
            tree.close()
    except MetadataStoreError as error:
        raise MigrationError(str(error)) from None
