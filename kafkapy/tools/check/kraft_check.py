"""Files outside the logs: KRaft's snapshots and quorum state, and kafkapy's own metadata."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator

from kafkapy.metadata import znodes
from kafkapy.metadata.sqlite_tree import WAL_SUFFIX, DamagedTreeError, SqliteTree
from kafkapy.metadata.store import MetadataStoreError
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.file_names import BOOTSTRAP_SNAPSHOT, QUORUM_STATE, parse_kraft_snapshot_name
from kafkapy.storage.offline.metadata_snapshot import read_snapshot
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity


def check_kraft_files(files: ReadOnlyFiles, directory: str) -> Iterator[Finding]:
    """Check that metadata snapshots are complete and that the quorum's state can be read."""
    for entry in files.scan(directory):
        try:
            snapshot = parse_kraft_snapshot_name(entry.name)
            if entry.name == BOOTSTRAP_SNAPSHOT or (snapshot is not None and snapshot.is_complete):
                position, wrong = read_snapshot(files, entry.path, lambda _: None)
                if wrong is not None:
                    remedy = "Apache Kafka does not start with it: restore it, or remove it if one is older."
                    yield Finding(Severity.DAMAGED, entry.path, wrong, remedy, position)
            elif entry.name == QUORUM_STATE:
                text = files.read(entry.path)
                if text and not isinstance(json.loads(text), dict):
                    raise ValueError("it is not a JSON object")
        except ValueError as error:
            remedy = "Apache Kafka does not start with it: restore it."
            yield Finding(Severity.DAMAGED, entry.path, f"it cannot be read: {error}", remedy)
        except FileNotFoundError:
            continue


def check_metadata_file(directory: str) -> tuple[str | None, list[Finding]]:
    """Return the cluster id in kafkapy's metadata, a SQLite file, and findings about the file.

    A copy is read, because SQLite creates files beside a database that it opens.
    """
    path = f"{directory}/{METADATA_FILE}"
    if not os.path.exists(path):
        return None, []
    with tempfile.TemporaryDirectory(prefix="kafkapy-check-") as folder:
        for suffix in ("", WAL_SUFFIX):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, f"{folder}/{METADATA_FILE}{suffix}")
        try:
            tree = SqliteTree(f"{folder}/{METADATA_FILE}", sync=False)
            try:
                node = tree.read(znodes.CLUSTER_ID)
            finally:
                tree.close()
            return None if node is None else znodes.decode_cluster_id(node.data), []
        except DamagedTreeError as error:
            return None, [Finding(Severity.DAMAGED, path, f"it is damaged ({error.what})", error.remedy)]
        except MetadataStoreError as error:
            what = str(error).replace(folder, directory).rstrip(".")
            return None, [Finding(Severity.DAMAGED, path, what, DamagedTreeError.remedy)]
