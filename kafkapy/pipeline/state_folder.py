"""The folder `_kafkapy` of a table: its small files, and the lock that allows one driver.

`state.py` explains the files.

A small file is always replaced as a unit. On a local disk this is a rename, with syncs before and after it.
In other stores a rename may not replace a file, or may not exist. There the text is written as NAME.next,
NAME is deleted, and NAME.next is moved. A reader that finds no NAME takes NAME.next, which is complete by
then.

Importing this module does not import pyarrow, which would take longer than most commands that only read a
definition.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.table_target import local_path

# Both pyarrow, for this folder, and Spark, for the table, reach them. In Azure's, pyarrow ends the process.
_STORES: Final = ("s3a", "s3", "s3n", "gs", "hdfs")
_LOCK_PATIENCE: Final = 1.0  # seconds; `running` takes the lock for an instant to test it


class DamagedFileError(PipelineError):
    """A file of the state is not what was written."""


class StateFolder:
    """The state folder of the table at `location`, a path or a URI.

    It is created on the first write.
    """

    FOLDER: Final = "_kafkapy"

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = os.fspath(location).rstrip("/") or "/"
        self._local = local_path(self.location)
        try:
            self.filesystem, base = _open_filesystem(self.location)
        except (OSError, ValueError, ImportError) as error:
            raise PipelineError(f"{self.location}: cannot be reached: {error}") from None
        self.root: str = f"{base.rstrip('/')}/{self.FOLDER}"

    # -- small files

    def read_text(self, name: str) -> str | None:
        content = self._read(name)
        return None if content is None else content.decode(errors="replace")

    def _read(self, name: str) -> bytes | None:
        for path in (f"{self.root}/{name}", f"{self.root}/{name}.next"):
            if (content := self.read_bytes(path)) is not None:
                return content
        return None

    def read_bytes(self, path: str) -> bytes | None:
        """The content of the file at a path in `filesystem`; None if there is no such file."""
        try:
            with self.filesystem.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return None
            raise PipelineError(f"{path}: cannot be read: {error}") from None

    def write_text(self, name: str, text: str) -> None:
        from pyarrow import fs

        path = f"{self.root}/{name}"
        try:
            self.filesystem.create_dir(self.root)
            if self._local is not None:
                _replace(Path(path), text.encode())
                return
            with self.filesystem.open_output_stream(f"{path}.next", compression=None) as stream:
                stream.write(text.encode())
            if self.filesystem.get_file_info(path).type != fs.FileType.NotFound:
                self.filesystem.delete_file(path)
            self.filesystem.move(f"{path}.next", path)
        except OSError as error:
            raise PipelineError(f"{path}: cannot be written: {error}") from None

    def read_json(self, name: str) -> Any:
        content = self._read(name)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise DamagedFileError(
                f"{self.root}/{name}: damaged, not JSON; restore it, or write to another table"
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=1))

    def names_in(self, folder: str) -> list[str]:
        """The names in a folder of `filesystem`; empty if there is no such folder."""
        return [entry.base_name for entry in self.entries(folder)]

    def entries(self, folder: str) -> list[Any]:
        """The entries of a folder of `filesystem`; empty if there is no such folder."""
        from pyarrow import fs

        selector = fs.FileSelector(folder, allow_not_found=True)
        return list(self.filesystem.get_file_info(selector))

    # -- one driver at a time

    @contextlib.contextmanager
    def lock(self, name: str = "lock", *, held: str = "its pipeline is running already") -> Iterator[None]:
        """Holds a lock of the pipeline for this process.

        A store without locks (S3, HDFS) is not locked. `name` is the lock's file. `held` is the message if
        another process has it.
        """
        if self._local is None:
            yield
            return
        try:
            self.filesystem.create_dir(self.root)
            descriptor = os.open(f"{self.root}/{name}", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise PipelineError(f"{self.location}: cannot be written: {error}; name another folder") from None
        try:
            deadline = time.monotonic() + _LOCK_PATIENCE
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    owner = os.pread(descriptor, 20, 0).decode() or "unknown"
                    raise PipelineError(f"{self.location}: {held} (process {owner}); stop that first")
                time.sleep(0.02)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    @property
    def running(self) -> int | None:
        """The id of the process that holds the lock; None if none does, or the store has no locks."""
        if self._local is None:
            return None
        try:
            descriptor = os.open(f"{self.root}/lock", os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return int(os.pread(descriptor, 20, 0) or 0)
        finally:
            os.close(descriptor)


def _open_filesystem(location: str) -> tuple[Any, str]:
    from pyarrow import fs

    local = local_path(location)
    if local is not None:
        return fs.LocalFileSystem(), str(local.absolute())
    scheme, _, rest = location.partition(":")
    if scheme not in _STORES:
        raise ValueError(f"no tables on {scheme}: yet; write to {', '.join(_STORES)} or a local folder")
    if scheme == "hdfs" and not _has_libhdfs():
        # pyarrow would print a page of what it tried.
        raise ValueError(
            "its client libhdfs.so is not here; set HADOOP_HOME to Hadoop's folder, and CLASSPATH to what "
            "`hadoop classpath --glob` prints"
        )
    # s3a is Hadoop's name of its S3 connector; the object store is the same.
    filesystem, path = fs.FileSystem.from_uri(f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}")
    return filesystem, path


def _has_libhdfs() -> bool:
    places = [("ARROW_LIBHDFS_DIR", "libhdfs.so"), ("HADOOP_HOME", "lib/native/libhdfs.so")]
    named = any((folder := os.environ.get(name)) and Path(folder, file).exists() for name, file in places)
    return named or ctypes.util.find_library("hdfs") is not None


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, content: bytes) -> None:
    following = path.with_name(f"{path.name}.tmp")
    with following.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    following.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
