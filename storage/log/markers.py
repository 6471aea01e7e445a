"""Transaction markers: the control batches that end a transaction in a partition.

A transaction coordinator writes them.

Source: EndTransactionMarker, ControlRecordType; KIP-98.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkapy.protocol.control_records import ControlType, parse_control_record_key, parse_end_txn_marker_value
from kafkapy.protocol.records import BatchHeader, decode_records


class TransactionMarker(NamedTuple):
    """The fields of the only record of a control batch that ends a transaction."""

    aborted: bool
    coordinator_epoch: int
    timestamp: int
    ends_epoch: bool = False
    """Whether each transaction has an epoch of its own, which the marker ends (KIP-890).

    The marker's epoch is higher than that of the records then. A log does not say so: only the coordinator
    that sends the marker does.
    """


def read_marker(header: BatchHeader, batch: memoryview) -> TransactionMarker | None:
    """The transaction marker in a control batch.

    None for a batch without records, or with another kind of control record.

    Raises:
        DecodeError: the batch cannot be read.
    """
    for record in decode_records(batch, 0, header):
        control_type = parse_control_record_key(record.key)
        if control_type not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        coordinator_epoch = parse_end_txn_marker_value(record.value)
        return TransactionMarker(control_type == ControlType.ABORT, coordinator_epoch, record.timestamp)
    return None
