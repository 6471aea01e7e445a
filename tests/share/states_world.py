"""A share coordinator, and what it is asked for."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.initialize_share_group_state import PartitionData as InitialState
from kafkapy.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kafkapy.protocol.messages.write_share_group_state import PartitionData as WrittenState
from kafkapy.protocol.messages.write_share_group_state import StateBatch
from kafkapy.protocol.records import decode_records, iter_headers
from kafkapy.share.share_coordinator import ShareCoordinator, ShareCoordinatorConfig
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import UNKNOWN, ShareState
from kafkapy.share.state_records import ShareKey, decode_record
from kafkapy.share.state_replay import ShareStateReplay
from tests.coordination.coordinator_world import CoordinatorWorld
from tests.groups.memory_log import MemoryLog, lead_all, run_here

MAX_UPDATES: Final = 3
PARTITIONS_OF_TOPIC: Final = 4

StoredRecord = tuple[int, ShareKey, ShareSnapshotValue | ShareUpdateValue | None]
"""The offset of a record, its key and its value."""


def initial(start_offset: int = 0, *, state_epoch: int = 1) -> InitialState:
    """What a group coordinator asks for."""
    return InitialState(partition=0, state_epoch=state_epoch, start_offset=start_offset)


def written(
    *batches: StoredBatch,
    start_offset: int = UNKNOWN,
    leader_epoch: int = UNKNOWN,
    state_epoch: int = UNKNOWN,
    delivery_complete_count: int = 0,
) -> WrittenState:
    """What the leader of a partition asks for."""
    return WrittenState(
        partition=0,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ],
    )


class StatesWorld(CoordinatorWorld[ShareCoordinator]):
    """The coordinator and its surroundings."""

    def __init__(self, log: MemoryLog, *, leads: bool = True) -> None:
        """The broker leads all partitions of `log`, or at first none."""
        self._leads = leads
        super().__init__(log)

    def made(self) -> ShareCoordinator:
        config = ShareCoordinatorConfig(max_updates=MAX_UPDATES)
        made = ShareCoordinator(config, self.clock, self.timers, self.log, blocking=run_here)
        if self._leads:
            lead_all(made.runtime, self.log)
        return made

    async def error_of(self, request: Coroutine[Any, Any, object]) -> ErrorCode:
        """The error of a request."""
        try:
            await request
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def records(self, partition: int = 0) -> Sequence[StoredRecord]:
        """What is in a partition of the log."""
        return [record for batch in self.log.batches[partition] for record in records_of(batch)]

    def stored(self, partition: int = 0) -> dict[ShareKey, ShareState]:
        """What a coordinator that starts now would load."""
        replay = ShareStateReplay("test")
        for batch in self.log.batches[partition]:
            replay.add(batch)
        return replay.result()


def records_of(batch: bytes | memoryview) -> Sequence[StoredRecord]:
    """The records of a batch."""
    found = []
    view = memoryview(batch)
    for position, header in iter_headers(view):
        for record in decode_records(view, position, header):
            decoded = decode_record(record.key or b"", record.value)
            assert decoded is not None
            found.append((record.offset, *decoded))
    return found
