"""A folder in a store that several machines reach: S3, HDFS, Azure, Google Cloud, others.

A rename may not replace a file there, or may copy it. So the content is written as NAME.next, NAME is
deleted, and NAME.next is moved. A reader that finds no NAME takes NAME.next, which is complete by then. If
that has just been moved, it takes NAME.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores.lease import Lease, LeaseFiles, lease_holder
from kafkapy.pipeline.stores.store import Entry, Store


class SharedFiles(LeaseFiles, Protocol):
    """The files of such a store; errors are OSErrors."""

    def entries(self, path: str) -> list[tuple[str, bool]]:
        """The names in a folder, and which of them are folders; none if it does not exist."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""

    def rename(self, path: str, other: str) -> None:
        """Renames a file; `other` does not exist."""


class SharedStore(Store):
    """The folder of these files."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files
        self._leases: list[Lease] = []

    def read(self, path: str) -> bytes | None:
        for name in (path, f"{path}.next", path):
            with contextlib.suppress(FileNotFoundError):
                return self._files.read(name)
        return None

    def replace(self, path: str, content: bytes) -> None:
        self._files.write(f"{path}.next", content)
        self._files.delete(path)
        self._files.rename(f"{path}.next", path)

    def entries(self, path: str = "") -> list[Entry]:
        return [Entry(name, is_folder) for name, is_folder in self._files.entries(path)]

    def delete_folder(self, path: str) -> None:
        self._files.delete(path)

    def is_file(self) -> bool:
        return self._files.is_file("")

    @contextlib.contextmanager
    def lock(self, path: str, held: str) -> Iterator[None]:
        lease = Lease(self._files, f"{path}.lease")
        try:
            lease.acquire(held)
        except OSError as error:
            raise PipelineError(f"{self._files.location}: cannot be locked: {error}") from None
        self._leases.append(lease)
        try:
            with lease.renewed():
                yield
        finally:
            self._leases.remove(lease)

    def check_locks(self) -> None:
        for lease in self._leases:
            lease.renew()

    def holder(self, path: str) -> int | None:
        try:
            return lease_holder(self._files, f"{path}.lease")
        except OSError as error:
            raise PipelineError(f"{self._files.location}: cannot be read: {error}") from None
