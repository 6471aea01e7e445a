"""What clients of asyncio do past the interpreter's clock, brought into virtual time.

The compiled record builder of aiokafka asks the C library for the time of a record that has none. Its
producers have client ids that count from the first one of the process. It chooses among brokers from a set of
tuples with None in them, whose hash is an address before Python 3.12.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any
from unittest import mock


class _Sorted(set[Any]):
    """A set of tuples that differ in their first field, in its order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=itemgetter(0)))


@contextmanager
def clients_in_time() -> Iterator[None]:
    """Let aiokafka use the time and the chance of this thread, and count from 1."""
    try:
        from aiokafka import AIOKafkaProducer
        from aiokafka.cluster import ClusterMetadata
        from aiokafka.producer.message_accumulator import BatchBuilder
    except ImportError:
        yield
        return
    append, brokers = BatchBuilder.append, ClusterMetadata.brokers

    def append_now(self: Any, *, timestamp: int | None, **record: Any) -> Any:
        at_ms = int(time.time() * 1000) if timestamp is None else timestamp
        return append(self, timestamp=at_ms, **record)

    def sorted_brokers(self: Any) -> set[Any]:
        return _Sorted(brokers(self))

    with (
        mock.patch.object(BatchBuilder, "append", append_now),
        mock.patch.object(ClusterMetadata, "brokers", sorted_brokers),
        mock.patch.object(AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 0),
    ):
        yield
