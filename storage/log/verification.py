"""The verification of a producer before it begins a transaction in a partition.

A batch that begins a transaction is written only after the coordinator has confirmed that the partition is
part of that transaction: otherwise a batch that comes after the end of its transaction would begin one that
nobody ends. The verification begins before the coordinator is asked, and the append needs the same object.
Any append of the producer in between removes it: the answer of the coordinator may be about a transaction
that a marker has ended since. It is then asked again. This is common: EndTxn is answered before the markers
are written, so the first batch of the next transaction may come before them.

Source: VerificationStateEntry, VerificationGuard; KIP-890.
"""

from __future__ import annotations


class Verification:
    """The verification of one producer id in one partition, compared by identity."""

    __slots__ = ("begins_at_zero", "begun_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, begins_at_zero: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The lowest sequence number that had to be verified.

        A higher one must not come before it: if the verification failed, the client sends it again.
        """
        self.begins_at_zero = begins_at_zero
        """Whether the first sequence number of each transaction is 0, as each has an epoch of its own."""
        self.begun_ms = now_ms

    def note(self, epoch: int, sequence: int) -> None:
        """Note another batch that must be verified."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
