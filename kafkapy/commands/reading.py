"""Reads records of partitions, from where a command begins to where it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self

from kafka import KafkaConsumer
from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafkapy.commands.connection.client_config import role_config
from kafkapy.commands.connection.failures import explained, quieten, reached
from kafkapy.commands.options import Session

# A poll waits so long: the command notices Ctrl-C, and the end of its partitions.
_POLL_MS: Final = 200


class Reader(AbstractContextManager["Reader"]):
    """A consumer of partitions without a group, or of topics in one.

    Args:
        overrides: kafka-python's settings that come before those of the session's properties.
    """

    def __init__(self, session: Session, **overrides: Any) -> None:
        quieten()
        config = {
            **role_config(session.properties, KafkaConsumer.DEFAULT_CONFIG),
            "group_id": None,
            "enable_auto_commit": False,
            **overrides,
        }
        self._admin = session.admin
        timeout_ms = round(session.timeout * 1000)
        with reached(session.config):
            self._consumer = KafkaConsumer(**session.config, **config, bootstrap_timeout_ms=timeout_ms)
        self._ends: dict[Any, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read what the group assigns, from where the group is."""
        self._consumer.subscribe(topics=list(topics))

    def begin(self, offsets: dict[Any, int]) -> None:
        """Read partitions from these offsets."""
        self._consumer.assign(list(offsets))
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)

    def begin_too(self, offsets: dict[Any, int]) -> None:
        """Read further partitions, from these offsets, without going back in the others."""
        self._consumer.assign([*self._consumer.assignment(), *offsets])
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)

    def end_at(self, ends: dict[Any, int]) -> None:
        """End when all partitions have been read up to there."""
        self._ends = ends

    def records(self) -> Iterator[list[Any]]:
        """The records as they come; an empty list shows that there was none for a while."""
        with explained():
            while not self._at_end():
                found = self._consumer.poll(timeout_ms=_POLL_MS)
                yield [record for records in found.values() for record in records]

    def commit(self, records: Iterable[Any]) -> None:
        """Commit that these records were read, for the group."""
        offsets = {
            TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1, "", -1)
            for record in records
        }
        with explained():
            self._consumer.commit(offsets)

    def _at_end(self) -> bool:
        if self._ends is None:
            return False
        return all(self._consumer.position(partition) >= end for partition, end in self._ends.items())


def ends(admin: Any, partitions: Iterable[Any]) -> dict[Any, int]:
    """The end of each partition."""
    found: dict[Any, int] = admin.offsets(partitions, OffsetSpec.LATEST)
    return found


def starts(admin: Any, partitions: Iterable[Any]) -> dict[Any, int]:
    """The log start offset of each partition."""
    found: dict[Any, int] = admin.offsets(partitions, OffsetSpec.EARLIEST)
    return found


def since(admin: Any, partitions: Sequence[Any], timestamp: int) -> dict[Any, int]:
    """The first offset at a time; the end of a partition without a later record."""
    last = ends(admin, partitions)
    found: dict[Any, int] = admin.offsets(partitions, timestamp)
    return {partition: last[partition] if found[partition] < 0 else found[partition] for partition in last}


def last_records(admin: Any, partitions: Sequence[Any], count: int) -> dict[Any, int]:
    """Where the last `count` offsets of each partition begin."""
    first, last = starts(admin, partitions), ends(admin, partitions)
    return {partition: max(first[partition], last[partition] - count) for partition in last}
