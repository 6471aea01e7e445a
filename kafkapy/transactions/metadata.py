"""The state of a transactional id: what one record of `__transaction_state` holds.

                 partitions are added                 EndTxn, or a timeout
    EMPTY ─────────────────────────────► ONGOING ─────────────────────────► PREPARE_COMMIT, PREPARE_ABORT
     ▲  ▲                                   ▲                                     │ all markers are written
     │  │ InitProducerId                    │ partitions are added                ▼
     │  └───────────────────────────────────┴───────────────────── COMPLETE_COMMIT, COMPLETE_ABORT
    new id

The written state decides the outcome: from PREPARE_COMMIT on, a transaction is committed, whichever broker
coordinates it. In transaction version 2 (KIP-890) an abort may also begin in EMPTY and in both COMPLETE
states. DEAD and PREPARE_EPOCH_FENCE are never written: Apache Kafka has them for a state on its way to the
log, and clients may name them in a filter.

Source: Apache Kafka's TransactionState, TransactionMetadata.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.protocol.records import MAX_PRODUCER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkapy.protocol.types import TopicPartition

LAST_EPOCH: Final = MAX_PRODUCER_EPOCH - 1
"""The last epoch that a client gets. One more is left, with which it can be fenced."""

NOT_STARTED: Final = -1
EPOCH_AT_EACH_END: Final = 2
"""The transaction version in which each transaction has an epoch of its own."""


class TransactionState(IntEnum):
    """The numbers are those in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that clients see, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers may be missing."""
        return self in PREPARED

    @property
    def is_at_rest(self) -> bool:
        """Whether there is no transaction."""
        return self in AT_REST


_STATE: Final = TransactionState
PREPARED: Final = frozenset({_STATE.PREPARE_COMMIT, _STATE.PREPARE_ABORT})
AT_REST: Final = frozenset({_STATE.EMPTY, _STATE.COMPLETE_COMMIT, _STATE.COMPLETE_ABORT})

BY_LABEL: Final = {state.label: state for state in TransactionState}

BEFORE: Final = {
    _STATE.EMPTY: AT_REST,
    _STATE.ONGOING: AT_REST | {_STATE.ONGOING},
    _STATE.PREPARE_COMMIT: frozenset({_STATE.ONGOING}),
    _STATE.PREPARE_ABORT: AT_REST | {_STATE.ONGOING},
    _STATE.COMPLETE_COMMIT: frozenset({_STATE.PREPARE_COMMIT}),
    _STATE.COMPLETE_ABORT: frozenset({_STATE.PREPARE_ABORT}),
    _STATE.DEAD: AT_REST,
}
"""The states from which each state can be reached."""


class TransactionMetadata(NamedTuple):
    """The state of a transactional id; times are in milliseconds."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before, by which a repeated request is recognized; it is in no record."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of state."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id from the end of this transaction on; NO_PRODUCER_ID if it stays the same."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions of the transaction; of those that are prepared too, until all have their markers."""
    start_ms: int = NOT_STARTED
    client_version: int = 0
    """The transaction version of the client that wrote this."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the client needs another producer id for its next epoch."""
        return self.producer_epoch >= LAST_EPOCH
