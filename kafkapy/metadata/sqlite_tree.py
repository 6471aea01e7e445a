"""The metadata tree as rows of one SQLite file.

Format: `metadata.db`. The table `node` has the primary key (parent path, name), so that the children of a
node are adjacent and neither a second index nor a rowid is needed. The table `counter` has one row with the
numbers of transactions (zxid) and of nodes. The file has a write-ahead log and an exclusive lock: it belongs
to one process.

SQLite has no checksums of its pages, so each row has a CRC-32, which is checked when the row is read. The
schema and the number of rows are checked when the file is opened. So damage is never taken for metadata.

Crash story: SQLite rolls back uncommitted changes, also when the disk is full. After a commit fails because
of the disk, its changes may or may not be there after a restart, and its caller gets an error. With `sync` a
commit is on disk when it returns (synchronous=FULL). Otherwise a power cut may lose the last commits, but
never tears one (synchronous=NORMAL). Ephemeral nodes of a killed process are removed when the file is opened.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Final

from kafkapy.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    EventType,
    MetadataStoreError,
    Node,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Operation,
    SetData,
    WatchEvent,
    split_path,
)
from kafkapy.storage.disk.errors import is_exhausted, what_is_lacking

WAL_SUFFIX: Final = "-wal"
SHM_SUFFIX: Final = "-shm"
"""The suffixes of SQLite's write-ahead log and of its shared memory, beside the file."""

_APPLICATION_ID = 0x6B61666B
_FORMAT = 2

_TABLES = (
    """CREATE TABLE node (
    parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
    created_zxid INTEGER NOT NULL, owner INTEGER NOT NULL, next_sequence INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID""",
    "CREATE TABLE counter (zxid INTEGER NOT NULL, nodes INTEGER NOT NULL, crc INTEGER NOT NULL)",
)

_SCHEMA = f"""
BEGIN IMMEDIATE;
{";".join(_TABLES)};
INSERT INTO counter VALUES (0, 0, {zlib.crc32(b"0 0")});
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""


_NODE = "SELECT parent, name, data, version, created_zxid, owner, crc FROM node"


def _crc(parent: str, name: str, data: bytes, version: int, created_zxid: int, owner: int) -> int:
    """The checksum of a row.

    It does not cover `next_sequence`, which only numbers notices.
    """
    return zlib.crc32(data, zlib.crc32(f"{parent}\0{name}\0{version} {created_zxid} {owner}".encode()))


def _counter_crc(zxid: int, nodes: int) -> int:
    return zlib.crc32(f"{zxid} {nodes}".encode())


def _lacking_descriptors() -> str | None:
    """The remedy if no file can be opened for lack of descriptors, otherwise None.

    SQLite gives no reason when it cannot open a file.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return what_is_lacking(error) if is_exhausted(error) else None
    return None


class DamagedTreeError(MetadataStoreError):
    """The file is damaged, or is not a file of SQLite."""

    remedy = (
        "Restore it from a copy. Or move it away: topics are made of the logs then, from which nothing is"
        " deleted before you set their retention again. No records are kept in it."
    )

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} is damaged ({what}). {self.remedy}")
        self.what = what


class NoRoomError(MetadataStoreError):
    """The disk is full; nothing was changed, and a retry may succeed when there is room."""


class FailedDiskError(MetadataStoreError):
    """The disk failed; whether the last commit is on disk is unknown."""


_SYNCHRONOUS: Final = {True: "FULL", False: "NORMAL", None: "OFF"}


class SqliteTree:
    """An open metadata.db.

    Every method may raise MetadataStoreError if a row is damaged.
    """

    def __init__(self, path: str, *, sync: bool | None) -> None:
        """Open or create the file.

        Args:
            sync: whether a commit is on disk when it returns. Otherwise it is later, and the file is
                sound if that does not come; None: nothing is synced, for a file that goes with the process.

        Raises:
            MetadataStoreError: another process uses it, it is damaged or another program's, or it cannot be
                written.
        """
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
            try:
                self._open(sync)
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, MemoryError) as error:
            raise self.explain(error) from error
        except UnicodeDecodeError as error:  # damage has got into SQLite's error message
            raise DamagedTreeError(path, "its schema") from error

    def _open(self, sync: bool | None) -> None:
        db = self._db
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[sync]}")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if version == 0 and application == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
            db.executescript(_SCHEMA)
        elif application != _APPLICATION_ID:
            raise MetadataStoreError(f"{self.path} is not a metadata database.")
        elif version != _FORMAT:
            raise MetadataStoreError(
                f"{self.path} has format {version} where this release knows {_FORMAT}:"
                " use the release that wrote it."
            )
        # The lock is taken now and kept, so that a second process fails here, not at its first write.
        db.execute("BEGIN IMMEDIATE")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DamagedTreeError(self.path, " ".join(verdict.split()))
        if [sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")] != [*_TABLES]:
            raise DamagedTreeError(self.path, "its schema")
        nodes = [self._good(row)[1] for row in db.execute(_NODE)]
        counters = db.execute("SELECT zxid, nodes, crc FROM counter").fetchall()
        if len(counters) != 1 or _counter_crc(*counters[0][:2]) != counters[0][2]:
            raise DamagedTreeError(self.path, "the counter of transactions")
        self._zxid: int = counters[0][0]
        if len(nodes) != counters[0][1]:
            raise DamagedTreeError(self.path, f"{len(nodes)} nodes of {counters[0][1]} are left")
        self._add_to_count(-db.execute("DELETE FROM node WHERE owner != 0").rowcount)
        self.commit()

    def explain(self, error: sqlite3.Error | MemoryError) -> MetadataStoreError:
        """The error for callers: one line with the problem and the remedy."""
        if isinstance(error, MemoryError):  # Python raises it for SQLITE_NOMEM
            return MetadataStoreError(f"{self.path} cannot be used: out of memory.")
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return MetadataStoreError(
                f"{self.path} is in use by another process: stop it, or use another data directory."
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")) or not name:
            return DamagedTreeError(self.path, str(error))
        if name.startswith("SQLITE_CANTOPEN") and (lack := _lacking_descriptors()):
            return MetadataStoreError(f"{self.path} cannot be used: {lack}")
        if name == "SQLITE_FULL" or (name.startswith("SQLITE_CANTOPEN") and self._disk_is_full()):
            return NoRoomError(f"{self.path} cannot be changed: the disk is full. Free space.")
        place = self.path if os.path.exists(self.path) else os.path.dirname(self.path)
        if os.path.exists(place) and not os.access(place, os.W_OK):
            return MetadataStoreError(
                f"{self.path} cannot be used: no permission to write it, or a read-only file system. Run the"
                " broker as the owner of the directory, or make that writable."
            )
        if name.startswith("SQLITE_IOERR") and name != "SQLITE_IOERR_NOMEM":
            return FailedDiskError(f"{self.path} cannot be used: {error} ({name})")
        return MetadataStoreError(f"{self.path} cannot be used: {error}.")

    def _disk_is_full(self) -> bool:
        """Whether a file cannot be created because the disk is full: SQLite gives no reason."""
        try:
            return os.statvfs(os.path.dirname(self.path)).f_bavail == 0
        except OSError:
            return False

    def _good(self, row: tuple[str, str, bytes, int, int, int, int]) -> tuple[str, Node]:
        """The path and node of a row.

        Raises:
            DamagedTreeError: its checksum is wrong.
        """
        parent, name, data, version, created_zxid, owner, crc = row
        path = f"/{name}" if parent == "/" else f"{parent}/{name}"
        if not isinstance(data, bytes) or _crc(parent, name, data, version, created_zxid, owner) != crc:
            raise DamagedTreeError(self.path, f"the node {path}")
        return path, Node(data, NodeStat(version, created_zxid, owner))

    def close(self) -> None:
        self._db.close()

    def content(self) -> bytes:
        """What the file would be if nothing of it were in the write-ahead log."""
        return self._db.serialize()

    def abandon(self) -> None:
        """Never touch the file again: its disk has failed.

        On close, SQLite would sync the write-ahead log again and copy pages from it that the kernel may have
        dropped. So the connection is never closed, not even at the end of the interpreter.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))

    # --- transactions -------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        (nodes,) = self._db.execute("SELECT nodes FROM counter").fetchone()
        crc = _counter_crc(self._zxid, nodes)
        self._db.execute("UPDATE counter SET zxid = ?, crc = ?", (self._zxid, crc))
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def apply(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[str | int | None], list[WatchEvent]]:
        """Apply all operations or none, inside the open transaction.

        Returns the results and the events for watchers.

        Raises:
            NodeError: the first operation that cannot be applied; the transaction stays usable.
        """
        self._zxid += 1
        results: list[str | int | None] = []
        events: list[WatchEvent] = []
        parents: set[str] = set()
        nodes = 0
        self._db.execute("SAVEPOINT request")
        try:
            for operation in operations:
                if isinstance(operation, Create):
                    results.append(self._create(operation, session, events, parents))
                    nodes += 1
                elif isinstance(operation, SetData):
                    results.append(self._set(operation, events))
                elif isinstance(operation, Delete):
                    self._delete(operation, events)
                    parents.clear()
                    nodes -= 1
                    results.append(None)
                else:
                    self._require(operation)
                    results.append(None)
            self._add_to_count(nodes)
        except (sqlite3.Error, MemoryError):
            raise  # the caller rolls back the complete transaction
        except BaseException:
            self._db.execute("ROLLBACK TO request")
            self._db.execute("RELEASE request")
            raise
        self._db.execute("RELEASE request")
        return results, events

    def end_session(self, session: int) -> list[WatchEvent]:
        """Remove the session's ephemeral nodes."""
        events: list[WatchEvent] = []
        for parent, name in self._db.execute(
            "SELECT parent, name FROM node WHERE owner = ?", (session,)
        ).fetchall():
            self._delete(Delete(parent.rstrip("/") + "/" + name), events)
            self._add_to_count(-1)
        return events

    def _create(self, operation: Create, session: int, events: list[WatchEvent], parents: set[str]) -> str:
        """Create one node.

        `parents` are nodes that are known to exist and may have children. The node and its parent are added.
        """
        path = operation.path
        parent, name = split_path(path)
        if parent not in parents and parent != "/":
            row = self._db.execute(
                "SELECT owner FROM node WHERE parent = ? AND name = ?", split_path(parent)
            ).fetchone()
            if row is None:
                raise NoNodeError(parent)
            if row[0] != 0:
                raise EphemeralParentError(parent)
            parents.add(parent)
        if operation.sequence:
            (number,) = self._db.execute(
                "UPDATE node SET next_sequence = next_sequence + 1 WHERE parent = ? AND name = ?"
                " RETURNING next_sequence - 1",
                split_path(parent),
            ).fetchone()
            name = f"{name}{number:010d}"
            path = f"{path}{number:010d}"
        row = (parent, name, operation.data, 0, self._zxid, session if operation.ephemeral else 0)
        try:
            self._db.execute("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, 0, ?)", (*row, _crc(*row)))
        except sqlite3.IntegrityError:
            raise NodeExistsError(path) from None
        if not operation.ephemeral:
            parents.add(path)
        events.append(WatchEvent(EventType.CREATED, path))
        events.append(WatchEvent(EventType.CHILDREN, parent))
        return path

    def _set(self, operation: SetData, events: list[WatchEvent]) -> int:
        stat = self._require(operation)
        version = stat.version + 1
        parent, name = split_path(operation.path)
        crc = _crc(parent, name, operation.data, version, stat.created_zxid, stat.owner)
        self._db.execute(
            "UPDATE node SET data = ?, version = ?, crc = ? WHERE parent = ? AND name = ?",
            (operation.data, version, crc, parent, name),
        )
        events.append(WatchEvent(EventType.CHANGED, operation.path))
        return version

    def _delete(self, operation: Delete, events: list[WatchEvent]) -> None:
        self._require(operation)
        parent, name = split_path(operation.path)
        if self._db.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (operation.path,)).fetchone():
            raise NotEmptyError(operation.path)
        self._db.execute("DELETE FROM node WHERE parent = ? AND name = ?", (parent, name))
        events.append(WatchEvent(EventType.DELETED, operation.path))
        events.append(WatchEvent(EventType.CHILDREN, parent))

    def _add_to_count(self, nodes: int) -> None:
        """Change the counter of nodes in the open transaction, which may be rolled back."""
        if nodes:
            self._db.execute("UPDATE counter SET nodes = nodes + ?", (nodes,))

    def _require(self, operation: SetData | Delete | Check) -> NodeStat:
        """The stat of the operation's node.

        Raises:
            NoNodeError: the node does not exist.
            BadVersionError: it has another version than the operation expects.
        """
        node = self.read(operation.path)
        if node is None:
            raise NoNodeError(operation.path)
        if operation.version not in (ANY_VERSION, node.stat.version):
            raise BadVersionError(operation.path)
        return node.stat

    # --- reads --------------------------------------------------------------------------------------------

    def read(self, path: str) -> Node | None:
        row = self._db.execute(f"{_NODE} WHERE parent = ? AND name = ?", split_path(path)).fetchone()
        return None if row is None else self._good(row)[1]

    def children(self, path: str) -> list[str]:
        if path != "/" and self.read(path) is None:
            raise NoNodeError(path)
        return [name for (name,) in self._db.execute("SELECT name FROM node WHERE parent = ?", (path,))]

    def subtree(self, path: str) -> dict[str, Node]:
        prefix = "" if path == "/" else path
        # '0' is the character after '/': the range holds exactly the parents that start with `prefix/`.
        rows = self._db.execute(
            f"{_NODE} WHERE parent = ? OR (parent >= ? AND parent < ?) ORDER BY parent, name",
            (path, prefix + "/", prefix + "0"),
        )
        return dict(map(self._good, rows))
