"""The folder `_kafkapy` of a table: its small files, and the lock that allows one driver.

`state.py` explains the files, and `stores/` how they are reached.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores import Entry, open_store

_LOCK: Final = "lock"


class DamagedFileError(PipelineError):
    """A file of the state is not what was written."""


class StateFolder:
    """The state folder of the table at `location`, a path or a URI.

    It is created on the first write. `spark_options` are those that Spark is started with, if the store is
    not a local folder and Spark does not run already.
    """

    FOLDER: Final = "_kafkapy"

    def __init__(
        self, location: str | os.PathLike[str], spark_options: Mapping[str, str] | None = None
    ) -> None:
        self.location = os.fspath(location).rstrip("/") or "/"
        self.store = open_store(self.location, spark_options)

    # -- small files

    def read_text(self, name: str) -> str | None:
        content = self.read_bytes(name)
        return None if content is None else content.decode(errors="replace")

    def read_bytes(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        try:
            return self.store.read(f"{self.FOLDER}/{name}")
        except OSError as error:
            raise PipelineError(f"{self._shown(name)}: cannot be read: {error}") from None

    def write_text(self, name: str, text: str) -> None:
        try:
            self.store.replace(f"{self.FOLDER}/{name}", text.encode())
        except OSError as error:
            raise PipelineError(f"{self._shown(name)}: cannot be written: {error}") from None

    def read_json(self, name: str) -> Any:
        content = self.read_bytes(name)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise DamagedFileError(
                f"{self._shown(name)}: damaged, not JSON; restore it, or write to another table"
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=1))

    def entries(self, name: str) -> list[Entry]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return self.store.entries(f"{self.FOLDER}/{name}")
        except OSError as error:
            raise PipelineError(f"{self._shown(name)}: cannot be read: {error}") from None

    def delete_folder(self, name: str) -> None:
        try:
            self.store.delete_folder(f"{self.FOLDER}/{name}")
        except OSError as error:
            raise PipelineError(f"{self._shown(name)}: cannot be deleted: {error}") from None

    def _shown(self, name: str) -> str:
        return f"{self.location}/{self.FOLDER}/{name}"

    # -- one driver at a time

    def lock(
        self, name: str = _LOCK, *, held: str = "its pipeline is running already"
    ) -> AbstractContextManager[None]:
        """Holds a lock of the pipeline for this process; PipelineError if another process has it.

        `name` is the lock's file. `held` is the message if another process has it.
        """
        return self.store.lock(f"{self.FOLDER}/{name}", held)

    def check_lock(self) -> None:
        """Raises PipelineError if another driver may have taken over; asked before each commit."""
        self.store.check_locks()

    @property
    def running(self) -> int | None:
        """The id of the process that holds the lock; None if none does."""
        return self.store.holder(f"{self.FOLDER}/{_LOCK}")
