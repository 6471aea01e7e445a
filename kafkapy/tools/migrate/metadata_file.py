"""This broker's own metadata, `metadata.db`: how an export reads it and an import makes it."""

from __future__ import annotations

from kafkapy.metadata import znodes
from kafkapy.metadata.image import read_image
from kafkapy.metadata.sqlite_tree import SHM_SUFFIX, WAL_SUFFIX, SqliteTree
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.cluster import Cluster, cluster_nodes
from kafkapy.tools.migrate.migration_error import MigrationError


def read_metadata(files: FileSystem, path: str, scratch: str, node_id: int) -> Cluster:
    """Return the cluster that a metadata.db describes, without topics that are being deleted.

    A copy is read, because SQLite changes a file with a write-ahead log when it opens it.

    Args:
        scratch: the directory for the copy, which is deleted afterwards.

    Raises:
        MigrationError: the file is damaged.
        OSError: the file cannot be copied.
    """
    copies = []
    for suffix in ("", WAL_SUFFIX):
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
        # The broker stopped before it had deleted these.
        deleted = [name for name in image.topics if znodes.delete_topic_path(name) in nodes]
        block = nodes[znodes.PRODUCER_ID_BLOCK].data
        next_producer_id = znodes.decode_producer_id_block(block).last + 1 if block else 0
    except (MetadataStoreError, KeyError) as error:
        raise MigrationError(f"{path} cannot be read: {error}") from None
    finally:
        for copy in copies:
            files.unlink(copy)
            files.unlink(copy + SHM_SUFFIX)
        files.unlink(f"{scratch}/metadata.db.read{WAL_SUFFIX}")
    return Cluster(node_id, image.with_topics(deleted=deleted), next_producer_id)


def write_metadata(path: str, cluster: Cluster) -> None:
    """Make a metadata.db; it is on disk when this returns.

    Raises:
        MigrationError: the file cannot be written.
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
