"""The batch of a transaction marker, ready to be appended."""

from __future__ import annotations

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.plain_batch import build_plain_batch
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.validate import PreparedBatch, PreparedBatches


def prepare_marker(producer_id: int, producer_epoch: int, marker: TransactionMarker) -> PreparedBatches:
    """A batch with the marker as its only record."""
    key = control_record_key(ControlType.ABORT if marker.aborted else ControlType.COMMIT)
    value = end_txn_marker_value(marker.coordinator_epoch)
    header, batch = build_plain_batch(
        [(key, value)],
        marker.timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    return PreparedBatches([PreparedBatch(header, batch, marker)], len(batch), 1)
