"""What the state of a pipeline needs of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import NamedTuple


class Entry(NamedTuple):
    """A file or folder within a folder."""

    name: str
    is_folder: bool


class Store(ABC):
    """A table's folder.

    Paths are relative to it. Errors are OSErrors with one line of text.
    """

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is no such file."""

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Writes a file and the folders that it needs.

        A reader finds the former content or the new one.
        """

    @abstractmethod
    def entries(self, path: str = "") -> list[Entry]:
        """What is in a folder; nothing if there is no such folder."""

    @abstractmethod
    def delete_folder(self, path: str) -> None:
        """Deletes a folder with its content."""

    @abstractmethod
    def is_file(self) -> bool:
        """Whether a file is in the place of the folder."""

    @abstractmethod
    def lock(self, path: str, held: str) -> AbstractContextManager[None]:
        """Holds a lock of this name; PipelineError with the text `held` if another process has it."""

    @abstractmethod
    def check_locks(self) -> None:
        """Raises PipelineError if a lock that was taken is no longer this process's."""

    @abstractmethod
    def holder(self, path: str) -> int | None:
        """The id of the process that holds a lock; None if none does."""
