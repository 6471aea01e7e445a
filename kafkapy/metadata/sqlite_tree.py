"""The metadata tree as rows of one SQLite file. Synchronous; used by one thread.

Format: `metadata.db`, one table `node` keyed by (parent path, name), so that a node's children lie side by
side and neither a second index nor a rowid is needed, and one counter of transactions (zxid). Write-ahead
log; the lock is exclusive: the file belongs to one process.

Crash story: SQLite rolls back what was not committed. With `sync` a commit is on disk when it returns
(synchronous=FULL); else the last commits before a power cut may be lost, though never torn
(synchronous=NORMAL). Ephemeral nodes that a killed process left are removed when the file is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

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

_APPLICATION_ID = 0x6B61666B
_FORMAT = 1

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE node (
    parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
    created_zxid INTEGER NOT NULL, owner INTEGER NOT NULL, next_sequence INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE TABLE counter (zxid INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""


class SqliteTree:
    """An open metadata.db."""

    def __init__(self, path: str, *, sync: bool) -> None:
        """Open or create the file.

        Raises:
            MetadataStoreError: another process holds it, it is damaged or foreign, or it cannot be written.
        """
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
            try:
                self._open(sync)
            except BaseException:
                self._db.close()
                raise
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def _open(self, sync: bool) -> None:
        db = self._db
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
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
        # Taking the lock now and keeping it makes a second process fail here, not at its first write.
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM node WHERE owner != 0")
        (self._zxid,) = db.execute("SELECT zxid FROM counter").fetchone()
        db.execute("COMMIT")

    def explain(self, error: sqlite3.Error) -> MetadataStoreError:
        """What happened, in one line that says what to do."""
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return MetadataStoreError(
                f"{self.path} is in use by another process: stop it, or use another data directory."
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
            return MetadataStoreError(
                f"{self.path} is damaged ({error}): restore it from a copy; records are not kept in it."
            )
        return MetadataStoreError(f"{self.path} cannot be used: {error}.")

    def close(self) -> None:
        self._db.close()

    # --- transactions -------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._db.execute("UPDATE counter SET zxid = ?", (self._zxid,))
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def apply(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[str | int | None], list[WatchEvent]]:
        """Apply all operations or none, inside the open transaction; their results and what watchers will
        hear.

        Raises:
            NodeError: the first operation that cannot be applied; the transaction stays usable.
        """
        self._zxid += 1
        results: list[str | int | None] = []
        events: list[WatchEvent] = []
        parents: set[str] = set()
        self._db.execute("SAVEPOINT request")
        try:
            for operation in operations:
                if isinstance(operation, Create):
                    results.append(self._create(operation, session, events, parents))
                elif isinstance(operation, SetData):
                    results.append(self._set(operation, events))
                elif isinstance(operation, Delete):
                    self._delete(operation, events)
                    parents.clear()
                    results.append(None)
                else:
                    self._require(operation)
                    results.append(None)
        except BaseException:
            self._db.execute("ROLLBACK TO request")
            raise
        finally:
            self._db.execute("RELEASE request")
        return results, events

    def end_session(self, session: int) -> list[WatchEvent]:
        """Remove the session's ephemeral nodes."""
        events: list[WatchEvent] = []
        for parent, name in self._db.execute(
            "SELECT parent, name FROM node WHERE owner = ?", (session,)
        ).fetchall():
            self._delete(Delete(parent.rstrip("/") + "/" + name), events)
        return events

    def _create(self, operation: Create, session: int, events: list[WatchEvent], parents: set[str]) -> str:
        """Make one node. `parents` are nodes known to exist and to be allowed children; it learns more."""
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
        try:
            self._db.execute(
                "INSERT INTO node VALUES (?, ?, ?, 0, ?, ?, 0)",
                (parent, name, operation.data, self._zxid, session if operation.ephemeral else 0),
            )
        except sqlite3.IntegrityError:
            raise NodeExistsError(path) from None
        if not operation.ephemeral:
            parents.add(path)
        events.append(WatchEvent(EventType.CREATED, path))
        events.append(WatchEvent(EventType.CHILDREN, parent))
        return path

    def _set(self, operation: SetData, events: list[WatchEvent]) -> int:
        version = self._require(operation) + 1
        self._db.execute(
            "UPDATE node SET data = ?, version = ? WHERE parent = ? AND name = ?",
            (operation.data, version, *split_path(operation.path)),
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

    def _require(self, operation: SetData | Delete | Check) -> int:
        """The version of the node that the operation names, which must be the one it expects."""
        row = self._db.execute(
            "SELECT version FROM node WHERE parent = ? AND name = ?", split_path(operation.path)
        ).fetchone()
        if row is None:
            raise NoNodeError(operation.path)
        version: int = row[0]
        if operation.version not in (ANY_VERSION, version):
            raise BadVersionError(operation.path)
        return version

    # --- reads --------------------------------------------------------------------------------------------

    def read(self, path: str) -> Node | None:
        row = self._db.execute(
            "SELECT data, version, created_zxid, owner FROM node WHERE parent = ? AND name = ?",
            split_path(path),
        ).fetchone()
        return None if row is None else Node(row[0], NodeStat(row[1], row[2], row[3]))

    def children(self, path: str) -> list[str]:
        if path != "/" and self.read(path) is None:
            raise NoNodeError(path)
        return [name for (name,) in self._db.execute("SELECT name FROM node WHERE parent = ?", (path,))]

    def subtree(self, path: str) -> dict[str, Node]:
        prefix = "" if path == "/" else path
        # '0' is the character after '/': the range holds exactly the parents that start with `prefix/`.
        rows = self._db.execute(
            "SELECT parent, name, data, version, created_zxid, owner FROM node"
            " WHERE parent = ? OR (parent >= ? AND parent < ?) ORDER BY parent, name",
            (path, prefix + "/", prefix + "0"),
        )
        return {
            (f"/{name}" if parent == "/" else f"{parent}/{name}"): Node(data, NodeStat(version, zxid, owner))
            for parent, name, data, version, zxid, owner in rows
        }
