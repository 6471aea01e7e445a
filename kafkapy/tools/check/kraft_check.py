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
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import crc_is_valid, decode_records, read_header
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.file_names import BOOTSTRAP_SNAPSHOT, QUORUM_STATE, parse_kraft_snapshot_name
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.check.finding import Finding, Severity

_SNAPSHOT_FOOTER = 4


def check_kraft_files(files: ReadOnlyFiles, directory: str) -> Iterator[Finding]:
    """Check that metadata snapshots are complete and that the quorum's state can be read.

    Raises:
        OSError: the disk failed.
    """
    for entry in files.scan(directory):
        try:
            snapshot = parse_kraft_snapshot_name(entry.name)
            if entry.name == BOOTSTRAP_SNAPSHOT or (snapshot is not None and snapshot.is_complete):
                position, wrong = _check_snapshot(files, entry.path)
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


def _check_snapshot(files: ReadOnlyFiles, path: str) -> tuple[int, str | None]:
    """Return the position of the last batch read and what is wrong there, or None."""
    file = files.open(path)
    position, last_type = 0, None
    try:
        for position, batch in iter_batches(files, file, 0, files.size_of(file)):
            header = read_header(batch)
            if not crc_is_valid(batch, 0, header):
                return position, "the CRC is wrong"
            last_type = None
            for record in decode_records(batch, 0, header):
                if header.is_control and record.key is not None:
                    last_type = int.from_bytes(record.key[2:4], "big")
    except BadBatchError as error:
        return error.position, error.reason
    except DecodeError as error:
        return position, str(error)
    finally:
        file.release()
    return position, None if last_type == _SNAPSHOT_FOOTER else "its footer is missing"


def check_metadata_file(directory: str) -> tuple[str | None, list[Finding]]:
    """Return the cluster id in kafkapy's metadata, a SQLite file, and findings about the file.

    A copy is read, because SQLite creates files beside a database that it opens.

    Raises:
        OSError: the disk failed.
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
