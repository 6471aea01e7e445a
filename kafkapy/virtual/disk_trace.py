"""A file system that records every change, and a disk that can lose unsynced changes.

`TracingFiles` does what the real file system does and keeps the trace. `Disk` plays a trace again in memory
and knows what is certain to survive a power cut: a file's content up to its last sync, a directory's names up
to its last sync. `Disk.lose_power` writes down one of the states in which the disk may be found. Of unsynced
writes any may be missing, in any order, torn at a sector, or have reached the size of the file and not its
content. Unsynced names are missing from some change on: the usual file systems keep the order of changes to
a directory. Most also keep the name of a synced file; the simulation does not rely on that.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from kafkapy.storage.disk.files import Buffer, File, FileSystem

SECTORS = (512, 4096)

Op = tuple[object, ...]
"""A name and arguments of one of the methods of `Disk`."""


class TracingFiles(FileSystem):
    """A file system below `root`, which exists."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.trace: list[Op] = []
        self._inodes: dict[str, int] = {}
        self._open: dict[int, int] = {}
        """Descriptor to inode."""
        self._last_inode = 0
        for path, _, names in _walk(root):
            for name in names:
                self._inodes[f"{path}/{name}"] = self._new_inode()

    def open(self, path: str, *, create: bool = False) -> File:
        new = create and not os.path.exists(path)
        file = super().open(path, create=create)
        if new:
            self._created(path)
        self._open[file.fd] = self._inodes[path]
        return file

    def create(self, path: str) -> None:
        new = not os.path.exists(path)
        super().create(path)
        if new:
            self._created(path)
        else:
            self._note("resize", self._inodes[path], 0)

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        written = super().write_at(file, buffers, position)
        self._note("write", self._open[file.fd], position, b"".join(buffers))
        return written

    def truncate(self, file: File, size: int) -> None:
        super().truncate(file, size)
        self._note("resize", self._open[file.fd], size)

    def allocate(self, file: File, size: int) -> None:
        super().allocate(file, size)
        self._note("resize", self._open[file.fd], os.fstat(file.fd).st_size)

    def sync_data(self, file: File) -> None:
        self._note("sync", self._open[file.fd])

    def sync_directory(self, path: str) -> None:
        if path.startswith(self.root):
            self._note("sync_directory", self._name(path))

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        for path in list(self._inodes):  # threads that load logs may add to it
            if path != source and not path.startswith(source + "/"):
                continue
            self._inodes[target + path[len(source) :]] = self._inodes.pop(path)
        self._note("rename", self._name(source), self._name(target))

    def unlink(self, path: str) -> None:
        if os.path.exists(path):
            super().unlink(path)
            self._note("unlink", self._name(path))

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self._note("make_directory", self._name(path))

    def make_directories(self, path: str) -> None:
        if not os.path.isdir(path):
            self.make_directories(os.path.dirname(path))
            self.make_directory(path)

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            for name in sorted(os.listdir(path)):
                self.remove(f"{path}/{name}")
            os.rmdir(path)
            self._note("unlink", self._name(path))
        else:
            self.unlink(path)

    def write_file(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        self.create(path)
        file = self.open(path)
        try:
            self.write_at(file, [data], 0)
            if durable:
                self.sync_data(file)
        finally:
            file.release()

    def sync_file_system(self, path: str) -> None:
        self._note("sync_all")

    def total_bytes(self, path: str) -> int:
        # The broker's reserve is small here, since it takes space on the disk.
        return 4 * 1024 * 1024

    def _note(self, *op: object) -> None:
        self.trace.append(op)

    def _created(self, path: str) -> None:
        inode = self._inodes[path] = self._new_inode()
        self._note("create", self._name(path), inode)

    def _new_inode(self) -> int:
        self._last_inode += 1
        return self._last_inode

    def _name(self, path: str) -> str:
        return path[len(self.root) :].strip("/")


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As os.walk, in an order that does not depend on the file system."""
    for path, directories, names in os.walk(root):
        directories.sort()
        yield path, directories, sorted(names)


class _File:
    """What is on disk of a file, and the changes since."""

    def __init__(self, content: bytes = b"") -> None:
        self.synced = bytearray(content)
        self.changes: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, (size, None) of a change of size."""

    def content(self, changes: list[tuple[int, bytes | None]]) -> bytes:
        """The content with these changes done."""
        content = bytearray(self.synced)
        _change(content, changes)
        return bytes(content)

    def sync(self) -> None:
        _change(self.synced, self.changes)
        self.changes.clear()

    def survive(self, chance: random.Random, keep: float) -> bytes:
        """One of the contents that a power cut may leave."""
        return self.content([_damage(change, chance) for change in self.changes if chance.random() < keep])


def _change(content: bytearray, changes: list[tuple[int, bytes | None]]) -> None:
    """Do the changes of a file."""
    for position, data in changes:
        end = position if data is None else position + len(data)
        if data is None:
            del content[end:]
        if len(content) < end:
            content += bytes(end - len(content))
        if data is not None:
            content[position:end] = data


def _damage(change: tuple[int, bytes | None], chance: random.Random) -> tuple[int, bytes | None]:
    """A change as a power cut may leave it on disk."""
    position, data = change
    if data is None or chance.random() < 0.8:
        return change
    kept = chance.randrange(0, len(data) + 1, chance.choice(SECTORS))
    rest = len(data) - kept
    return position, data[:kept] + chance.choice((b"", bytes(rest), chance.randbytes(rest)))


class _Directory:
    """What is on disk of a directory's names, and the changes since."""

    def __init__(self) -> None:
        self.synced: dict[str, _File | _Directory] = {}
        self.names: dict[str, _File | _Directory] = {}
        self.changes: list[dict[str, _File | _Directory | None]] = []

    def change(self, names: dict[str, _File | _Directory | None]) -> None:
        """Change all of `names` at once; None removes a name."""
        self.changes.append(names)
        self.names = _changed(self.names, names)

    def sync(self) -> None:
        self.synced = dict(self.names)
        self.changes.clear()

    def sync_all(self) -> None:
        """As `sync`, of all directories below as well."""
        self.sync()
        for node in self.names.values():
            if isinstance(node, _Directory):
                node.sync_all()

    def survive(self, chance: random.Random, keep: float, target: Path) -> None:
        """Make one of the directories that a power cut may leave."""
        target.mkdir()
        names = self.synced
        kept = (
            round(len(self.changes) * keep) if keep in (0.0, 1.0) else chance.randrange(len(self.changes) + 1)
        )
        for change in self.changes[:kept]:
            names = _changed(names, change)
        for name, node in names.items():
            if isinstance(node, _Directory):
                node.survive(chance, keep, target / name)
            else:
                (target / name).write_bytes(node.survive(chance, keep))


def _changed(
    names: dict[str, _File | _Directory], change: dict[str, _File | _Directory | None]
) -> dict[str, _File | _Directory]:
    merged = {**names, **change}
    return {name: node for name, node in merged.items() if node is not None}


class Disk:
    """A disk as a trace leaves it."""

    def __init__(self, root: Path | None = None) -> None:
        """Empty, or with all that is below `root` on it for certain; inodes as in `TracingFiles`."""
        self._root = _Directory()
        self._files: dict[int, _File] = {}
        if root is not None:
            for path, directories, names in _walk(root):
                here = self._directory(os.path.relpath(path, root).removeprefix("."))
                here.synced = {name: _Directory() for name in directories}
                for name in names:
                    file = self._files[len(self._files) + 1] = _File(Path(path, name).read_bytes())
                    here.synced[name] = file
                here.names = dict(here.synced)

    def play(self, trace: Sequence[Op]) -> None:
        """Apply the changes of a trace."""
        for name, *arguments in trace:
            getattr(self, str(name))(*arguments)

    def create(self, path: str, inode: int) -> None:
        parent, name = self._parent(path)
        self._files[inode] = _File()
        parent.change({name: self._files[inode]})

    def write(self, inode: int, position: int, data: bytes) -> None:
        self._files[inode].changes.append((position, data))

    def resize(self, inode: int, size: int) -> None:
        self._files[inode].changes.append((size, None))

    def sync(self, inode: int) -> None:
        self._files[inode].sync()

    def sync_directory(self, path: str) -> None:
        self._directory(path).sync()

    def sync_all(self) -> None:
        for file in self._files.values():
            file.sync()
        self._root.sync_all()

    def make_directory(self, path: str) -> None:
        parent, name = self._parent(path)
        parent.change({name: _Directory()})

    def unlink(self, path: str) -> None:
        parent, name = self._parent(path)
        parent.change({name: None})

    def rename(self, source: str, target: str) -> None:
        parent, old = self._parent(source)
        other, new = self._parent(target)
        assert parent is other, "a rename from one directory to another is two changes"
        parent.change({old: None, new: parent.names[old]})

    def lose_power(self, target: Path, chance: random.Random) -> None:
        """Make the directory `target`: the disk after a power cut."""
        self._root.survive(chance, chance.choice((0.0, 0.5, 0.9, 1.0)), target)

    def _directory(self, path: str) -> _Directory:
        node: _File | _Directory = self._root
        for name in path.split("/") if path else ():
            assert isinstance(node, _Directory)
            if not name:
                continue
            node = node.names[name]
        assert isinstance(node, _Directory)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name
