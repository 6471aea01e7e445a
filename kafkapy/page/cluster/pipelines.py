"""Pipelines from topics to tables, as `kafkapy pipeline status` knows them: without Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kafkapy.errors import UserError
from kafkapy.page.cluster.remembered import Remembered

if TYPE_CHECKING:
    from kafkapy.pipeline.pipeline_error import PipelineError
    from kafkapy.pipeline.pipelines_file import PipelinesFile
    from kafkapy.pipeline.status import Status

T = TypeVar("T")

_SECONDS: Final = 1.0
_MOST_REMEMBERED: Final = 50


class Pipelines:
    """The pipelines of some files.

    Args:
        files: YAML files of pipelines, or tables.
        timeout: seconds that the cluster has for a view.

    Raises:
        UserError: a file is none, or a library is missing.
    """

    def __init__(self, files: Sequence[str], timeout: float) -> None:
        try:
            from kafkapy.pipeline.pipelines_file import PipelinesFile
            from kafkapy.pipeline.topics import Clients

            self._files: Final[Sequence[PipelinesFile]] = [PipelinesFile.load(file) for file in files]
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("kafkapy"):
                raise
            raise UserError(
                f"{error.name} is not installed: pip install '.[page,spark]' in a checkout"
            ) from None
        self._clients: Final = Clients()
        self._timeout = timeout
        self._all: Final = Remembered(self._find_all, _SECONDS)
        self._one: Final[dict[tuple[int, str], Remembered[Status]]] = {}
        self._lock: Final = threading.Lock()

    def all(self) -> list[tuple[int, str, Status | PipelineError]]:
        """The number of its file, the name and the status of each, or why it has none.

        Raises:
            UserError: the clusters do not answer in time.
        """
        return _in_time(self._all.get(self._timeout))

    def one(self, file: int, name: str) -> Status:
        """The status of one with what it has done lately; raises UserError."""
        with self._lock:
            key = file, name
            if key not in self._one:
                if len(self._one) >= _MOST_REMEMBERED:
                    del self._one[next(iter(self._one))]
                self._one[key] = Remembered(partial(self._find, file, name), _SECONDS)
            known = self._one[key]
        return _in_time(known.get(self._timeout))

    def _find_all(self) -> list[tuple[int, str, Status | PipelineError]]:
        from kafkapy.pipeline.status_of_all import status_of_all

        return [
            (number, name, status)
            for number, file in enumerate(self._files)
            for name, status in status_of_all(file, self._clients).found.items()
        ]

    def _find(self, file: int, name: str) -> Status:
        from kafkapy.pipeline.status import status_of

        clients = self._clients
        if file < len(self._files):
            found = self._files[file].definitions(
                lambda one: clients.at(one.bootstrap, one.kafka_options).names()
            )
            for definition in found:
                if definition.name == name:
                    topics = clients.at(definition.bootstrap, definition.kafka_options)
                    return status_of(definition, topics, with_recent=True)
        raise UserError(f"there is no pipeline {name!r}")


def _in_time(found: T | None) -> T:
    if found is None:
        raise UserError("the cluster does not answer in time")
    return found
