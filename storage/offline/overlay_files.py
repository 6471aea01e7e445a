"""The file operations of the storage layer on real files, with all changes kept in memory.

Nothing on disk is changed by a write, a truncation, a rename or a removal. A start on such a file system does
what the next start will do. The directory may belong to another user or be on a read-only mount. No lock is
taken.

The memory holds the 4 KiB blocks that were written, and a name for each file that was opened. A truncation
takes no memory, however large the segment is. If a file is written again with the same content, as most
rebuilt indexes are, its blocks are freed when it is closed.

An open file has a descriptor of the real file, to read what was not changed. An operation that does not go
through `FileSystem`, such as os.sendfile, reads the real file. All calls come from one thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkapy.storage.disk.files import (
    Buffer,
    DirectoryEntry,
    File,
    FileSystem,
)

_BLOCK: Final = 4096
_DISK: Final = FileSystem()


class _Content:
    """The content of a file: that of a real file, if there is one, and the changes to it."""

    __slots__ = ("_blocks", "_shown", "modified_ms", "real", "real_size", "size")

    def __init__(self, real: str | None = None, size: int = 0) -> None:
        self.real = real
        """The path of the real file; None if there is none."""
        self.real_size = size
        self.size = size
        self._shown = size
        """How many bytes of the real file were not truncated; zeros follow them."""
        self._blocks: dict[int, bytearray] = {}
        """The blocks that were written, by position // _BLOCK; zeros after `size`."""
        self.modified_ms: int | None = None
        """When it was changed; None if it was not."""

    @property
    def is_changed(self) -> bool:
        """Whether the content differs from the real file's, as far as is known without reading it."""
        return self.real is None or bool(self._blocks) or not self._shown == self.size == self.real_size

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        nbytes = max(min(len(buffer), self.size - position), 0)
        done = _DISK.read_into(file, buffer[: max(min(nbytes, self._shown - position), 0)], position)
        if done < nbytes:
            buffer[done:nbytes] = bytes(nbytes - done)
        if self._blocks:
            for number in range(position // _BLOCK, -(-(position + nbytes) // _BLOCK)):
                block = self._blocks.get(number)
                if block is not None:
                    at = number * _BLOCK
                    start, end = max(at, position), min(at + _BLOCK, position + nbytes)
                    buffer[start - position : end - position] = block[start - at : end - at]
        return nbytes

    def write(self, file: File, data: memoryview, position: int) -> None:
        at, end = position, position + len(data)
        while at < end:
            number, start = divmod(at, _BLOCK)
            nbytes = min(_BLOCK - start, end - at)
            block = self._blocks.get(number)
            if block is None:
                block = bytearray(_BLOCK)
                self.read_into(file, memoryview(block), number * _BLOCK)
                self._blocks[number] = block
            block[start : start + nbytes] = data[at - position : at - position + nbytes]
            at += nbytes
        if data:
            self.size = max(self.size, end)
            self._touch()

    def resize(self, size: int) -> None:
        if size < self.size:
            self._shown = min(self._shown, size)
            self._blocks = {number: each for number, each in self._blocks.items() if number * _BLOCK < size}
            last, start = divmod(size, _BLOCK)
            if last in self._blocks:
                self._blocks[last][start:] = bytes(_BLOCK - start)
        self.size = size
        self._touch()

    def settle(self, file: File) -> None:
        """Forget the changes if the content is the same as the real file's."""
        if self.real is None or not self.is_changed or self.size != self.real_size:
            return
        ours, real = memoryview(bytearray(_BLOCK)), memoryview(bytearray(_BLOCK))
        for number in sorted({*self._blocks, *range(self._shown // _BLOCK, -(-self.size // _BLOCK))}):
            nbytes = self.read_into(file, ours, number * _BLOCK)
            if ours[:nbytes] != real[: _DISK.read_into(file, real[:nbytes], number * _BLOCK)]:
                return
        self._shown = self.real_size
        self._blocks.clear()

    def copy(self) -> _Content:
        other = _Content(self.real, self.real_size)
        other.size, other._shown = self.size, self._shown
        other._blocks = {number: bytearray(each) for number, each in self._blocks.items()}
        other._touch()
        return other

    def _touch(self) -> None:
        self.modified_ms = time.time_ns() // 1_000_000


class _Directory:
    """A directory: that of a real one, if there is one, and the names that were looked up."""

    __slots__ = ("known", "real")

    def __init__(self, real: str | None = None) -> None:
        self.real = real
        self.known: dict[str, _Directory | _Content | None] = {}
        """The names that were looked up or changed; None for a name that was removed."""


_Node = _Directory | _Content


class _Size(NamedTuple):
    st_size: int


class _Entry(NamedTuple):
    """A name in a directory, and the file or directory that it names."""

    name: str
    path: str
    node: _Node

    def is_dir(self) -> bool:
        return isinstance(self.node, _Directory)

    def is_file(self) -> bool:
        return isinstance(self.node, _Content)

    def stat(self) -> _Size:
        return _Size(self.node.size if isinstance(self.node, _Content) else 0)


class _OverlayFile(File):
    """An open file, with a descriptor of the real file, or -1 if there is none."""

    __slots__ = ("content",)

    def __init__(self, content: _Content) -> None:
        super().__init__(-1)
        self.content = content
        if content.real is not None:
            self.fd = os.open(content.real, os.O_RDONLY | os.O_CLOEXEC)

    def _close(self) -> None:
        if self.fd >= 0:
            self.content.settle(self)
            super()._close()

    def __del__(self) -> None:
        # A start that refuses a log leaves files open, and a check may meet thousands of such logs.
        if self.fd >= 0:
            super()._close()


def _content(file: File) -> _Content:
    assert isinstance(file, _OverlayFile)
    return file.content


class OverlayFiles(FileSystem):
    """Real files, with changes to them in memory."""

    def __init__(self) -> None:
        self._root = _Directory("/")

    def is_changed(self, path: str) -> bool:
        """Return whether a file differs from the real file with its name, or is new."""
        node = self._find(path)
        if not isinstance(node, _Content):
            return False
        if node.real is not None or not os.path.isfile(path):
            return node.is_changed or node.real != path
        return node.size != os.path.getsize(path) or self.read(path) != _DISK.read(path)

    def forget(self, path: str) -> None:
        """Forget all changes to a file or a directory; no file in it may be open."""
        parent, name = self._parent(path)
        parent.known.pop(name, None)

    # --- names ----------------------------------------------------------------------------------------------

    def _find(self, path: str) -> _Node | None:
        """Return the file or directory with the path; None if there is none."""
        try:
            return self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in path.split("/"):
            if name:
                node = self._child(node, name, path)
        return node

    def _child(self, parent: _Node, name: str, path: str) -> _Node:
        if not isinstance(parent, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        node = parent.known.get(name)
        if node is None:
            if parent.real is None or name in parent.known:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            real = f"{parent.real.rstrip('/')}/{name}"
            status = os.stat(real)
            node = _Directory(real) if stat.S_ISDIR(status.st_mode) else _Content(real, status.st_size)
            parent.known[name] = node
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _file(self, path: str) -> _Content:
        node = self._node(path)
        if not isinstance(node, _Content):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def scan(self, path: str) -> Sequence[DirectoryEntry]:
        directory = self._directory(path)
        entries: dict[str, DirectoryEntry] = {}
        if directory.real is not None:
            with os.scandir(directory.real) as found:
                for each in found:
                    if each.name in directory.known:
                        continue
                    if directory.real == path:
                        entries[each.name] = each
                    else:
                        self._child(directory, each.name, f"{path}/{each.name}")
        for name, node in directory.known.items():
            if node is not None:
                entries[name] = _Entry(name, f"{path}/{name}", node)
        return sorted(entries.values(), key=lambda entry: entry.name)

    def exists(self, path: str) -> bool:
        try:
            return self._find(path) is not None
        except OSError:
            return False

    def rename(self, source: str, target: str) -> None:
        parent, name = self._parent(target)
        node = self._node(source)
        there = self._find(target)
        if there is node:
            return
        if isinstance(there, _Directory):
            if not isinstance(node, _Directory):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            if self.scan(target):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        elif there is not None and isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        self._gone(source)
        parent.known[name] = node

    def link(self, source: str, target: str) -> None:
        content = self._file(source)
        self._add(target, content)

    def copy(self, source: str, target: str) -> int | None:
        content = self._file(source)
        self._add(target, content.copy())
        return content.size

    def copy_start(self, source: str, target: str, nbytes: int) -> None:
        content = self._file(source).copy()
        content.resize(min(nbytes, content.size))
        self._add(target, content)

    def is_shared(self, path: str) -> bool:
        """False: changes are in memory, and of one name."""
        return False

    def unshare(self, path: str) -> None:
        """Do nothing: changes are in memory, and of one name."""

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file(path)
            self._gone(path)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._node(path)
            self._gone(path)

    def make_directory(self, path: str) -> None:
        self._add(path, _Directory())

    def make_directories(self, path: str) -> None:
        if self._find(os.path.dirname(path)) is None:
            self.make_directories(os.path.dirname(path))
        if not isinstance(self._find(path), _Directory):
            self.make_directory(path)

    def _add(self, path: str, node: _Node) -> None:
        parent, name = self._parent(path)
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        parent.known[name] = node

    def _gone(self, path: str) -> None:
        parent, name = self._parent(path)
        parent.known[name] = None

    # --- content --------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        if create and self._find(path) is None:
            self._add(path, _Content())
        return _OverlayFile(self._file(path))

    def create(self, path: str) -> None:
        if self._find(path) is None:
            self._add(path, _Content())
        else:
            self._file(path).resize(0)

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        content = _content(file)
        data = bytearray(max(min(nbytes, content.size - position), 0))
        content.read_into(file, memoryview(data), position)
        return bytes(data)

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        return _content(file).read_into(file, buffer, position)

    def begin_to_read(self, file: File, position: int, nbytes: int) -> bool:
        return True

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        data = memoryview(b"".join(buffers))
        _content(file).write(file, data, position)
        return len(data)

    def truncate(self, file: File, size: int) -> None:
        _content(file).resize(size)

    def allocate(self, file: File, size: int) -> None:
        content = _content(file)
        content.resize(max(size, content.size))

    def size(self, path: str) -> int:
        node = self._node(path)
        return node.size if isinstance(node, _Content) else 0

    def size_of(self, file: File) -> int:
        return _content(file).size

    def modified_ms(self, path: str) -> int:
        content = self._file(path)
        if content.modified_ms is not None or content.real is None:
            return content.modified_ms or 0
        return super().modified_ms(content.real)

    def set_modified_ms(self, file: File, modified_ms: int) -> None:
        _content(file).modified_ms = modified_ms

    def read(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return self.read_at(file, self.size_of(file), 0)
        finally:
            file.release()

    def write_file(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        self.create(path)
        file = self.open(path)
        try:
            self.write_at(file, [data], 0)
        finally:
            file.release()

    def lock(self, path: str) -> File:
        """Open the file without a lock, since nobody else sees the changes."""
        return self.open(path, create=True)

    def sync_data(self, file: File) -> None:
        """Do nothing: there is no disk."""

    def sync_path(self, path: str) -> None:
        """Do nothing: there is no disk."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: there is no disk."""

    def sync_file_system(self, path: str) -> None:
        """Do nothing: there is no disk."""

    def sync_all(self, path: str) -> None:
        """Do nothing: there is no disk."""
