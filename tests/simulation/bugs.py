"""Planted bugs: each breaks a promise on purpose, and the simulation has to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest import mock

from kafkapy.fetch import follower_read, read
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.controller_requests import UNKNOWN_BROKER_EPOCH, ControllerRequests
from kafkapy.replicas.fetch_session import Wanted
from kafkapy.replicas.fetcher import Fetcher, FetchSettings
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.partition import Partition
from kafkapy.storage.log.producers import ProducerStates, ProducerUpdates
from kafkapy.storage.log.validate import AppendOrigin, PreparedBatch
from kafkapy.virtual.disk import SimulatedDisk
from kafkapy.virtual.metadata_tree import MemoryStore

Bug = Callable[[], AbstractContextManager[Any]]


def acknowledges_before_the_sync() -> AbstractContextManager[Any]:
    """The high watermark follows the end of the log, not what is on disk."""
    original = Partition._advance

    def advance(self: Partition) -> bool:
        moved = original(self)
        target = self.replication.committed(self.log.log_end_offset)
        if target > self.log.high_watermark:
            self.log.advance_high_watermark(target)
            moved = True
        return moved

    return mock.patch.object(Partition, "_advance", advance)


def never_syncs_names() -> AbstractContextManager[Any]:
    """A new file is synced, its name is not; nor is a rename."""
    return mock.patch.object(SimulatedDisk, "sync_directory", lambda self, path: None)  # noqa: PT008


@contextmanager
def follows_on_before_its_sync() -> Iterator[None]:
    """A follower fetches on before what it appended is on its disk."""

    async def goes_on(self: Fetcher, appended: list[Partition]) -> None:
        """Wait for nothing."""

    def wanted(self: Fetcher, key: TopicPartition, version: int, settings: FetchSettings) -> Wanted | None:
        with mock.patch.object(Partition, "ready_offset", property(lambda self: self.log.log_end_offset)):
            return original(self, key, version, settings)

    original = Fetcher._wanted
    with (
        mock.patch.object(Fetcher, "_synced", goes_on),
        mock.patch.object(Fetcher, "_wanted", wanted),
    ):
        yield


@contextmanager
def obeys_old_controllers() -> Iterator[None]:
    """A broker does what any controller asks, and deletes what the metadata assigns to it.

    Each of the two checks alone keeps the next topic of a name from an old order.
    """

    def fence(self: ControllerRequests, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        self._controller_epoch = max(self._controller_epoch, controller_epoch)
        return ErrorCode.NONE

    with (
        mock.patch.object(ControllerRequests, "_fence", fence),
        mock.patch.object(ControllerRequests, "_is_kept", lambda *_: False),  # noqa: PT008
    ):
        yield


def acknowledges_before_the_others_have_it() -> AbstractContextManager[Any]:
    """A leader commits what is on its own disk."""
    return mock.patch.object(Leader, "committed", lambda self, ready: ready)


def truncates_to_the_high_watermark() -> AbstractContextManager[Any]:
    """A new follower truncates what it does not know to be committed.

    Kafka did so before KIP-101.
    """
    original = ControllerRequests._begin

    def begin(self: ControllerRequests, partition: Partition, state: PartitionState) -> None:
        original(self, partition, state)
        if not partition.replication.leads:
            partition.truncate_to(partition.log.high_watermark)

    return mock.patch.object(ControllerRequests, "_begin", begin)


@contextmanager
def does_not_compare_epochs() -> Iterator[None]:
    """A leader lets any follower fetch on, whatever epochs it knows."""
    with (
        mock.patch.object(Partition, "require_leader_epoch", lambda *_, **__: None),  # noqa: PT008
        mock.patch.object(read, "diverging_epoch", lambda *_: None),  # noqa: PT008
        mock.patch.object(follower_read, "diverging_epoch", lambda *_: None),  # noqa: PT008
    ):
        yield


def forgets_sequences_of_the_leader() -> AbstractContextManager[Any]:
    """A follower notes only a producer's first batch, so as a leader it refuses the next ones."""
    original = ProducerStates.prepare

    def prepare(
        self: ProducerStates,
        batches: Iterable[PreparedBatch],
        *,
        origin: AppendOrigin,
        **options: Any,
    ) -> ProducerUpdates | None:
        if origin is AppendOrigin.REPLICATION:
            batches = [each for each in batches if self.get(each.header.producer_id) is None]
        return original(self, batches, origin=origin, **options)

    return mock.patch.object(ProducerStates, "prepare", prepare)


def believes_a_server_that_is_behind() -> AbstractContextManager[Any]:
    """A broker refuses what the controller has written and its own ZooKeeper does not know yet."""

    async def sync(self: MemoryStore) -> None:
        """Wait for nothing."""

    return mock.patch.object(MemoryStore, "sync", sync)


BUGS_OF_ONE_BROKER: Final[tuple[Bug, ...]] = (
    acknowledges_before_the_sync,
    never_syncs_names,
)

BUGS_OF_THREE_BROKERS: Final[tuple[Bug, ...]] = (
    acknowledges_before_the_others_have_it,
    truncates_to_the_high_watermark,
    does_not_compare_epochs,
    follows_on_before_its_sync,
    forgets_sequences_of_the_leader,
    believes_a_server_that_is_behind,
)

BUGS_OF_CONTROLLERS: Final[tuple[Bug, ...]] = (obeys_old_controllers,)
