"""Batch headers as the producer states see them: offsets assigned."""

from __future__ import annotations

from kafkapy.protocol.records import BatchHeader
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.producers import ProducerStates, ProducerUpdates
from kafkapy.storage.log.validate import AppendOrigin, PreparedBatch
from kafkapy.storage.log.verification import Verification

TRANSACTIONAL = 0x10
CONTROL = 0x20
NOW = 1_700_000_000_000
DAY = 86_400_000


def data(
    offset: int,
    sequence: int,
    *,
    count: int = 1,
    producer_id: int = 1,
    epoch: int = 0,
    transactional: bool = False,
    timestamp: int = NOW,
) -> BatchHeader:
    """A batch of `count` records."""
    attributes = TRANSACTIONAL if transactional else 0
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def prepared(header: BatchHeader, marker: TransactionMarker | None = None) -> PreparedBatch:
    """A batch as it is appended; its bytes do not matter."""
    return PreparedBatch(header, memoryview(b""), marker)


def marker(
    offset: int,
    *,
    aborted: bool,
    producer_id: int = 1,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    ends_epoch: bool = False,
) -> PreparedBatch:
    """The control batch that ends a transaction."""
    header = data(offset, -1, producer_id=producer_id, epoch=epoch)
    header = header._replace(attributes=TRANSACTIONAL | CONTROL)
    return prepared(header, TransactionMarker(aborted, coordinator_epoch, NOW, ends_epoch))


def write(
    states: ProducerStates,
    header: BatchHeader,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now: int = NOW,
    verification: Verification | None = None,
) -> ProducerUpdates:
    """Append a batch of data; the updates, which are committed unless it was a duplicate."""
    updates = states.prepare([prepared(header)], origin=origin, now_ms=now, verification=verification)
    assert updates is not None
    if updates.duplicate is None:
        states.commit(updates)
        states.end_offset = header.next_offset
    return updates
