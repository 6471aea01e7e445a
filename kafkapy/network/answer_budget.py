"""A budget for the memory of all answers that are being made or are not read yet.

Memory is counted in values.

A request of some bytes may ask for a million values: all producers of partitions, all members of groups. Its
handler charges them to the connection before it makes them (`RequestContext.charge`), part by part. They stay
charged until the client has read the answer. Beyond the budget, the next part is refused with an error after
which clients ask again. A single connection is never refused while no other one has anything charged, so
that the largest answer can be had.

Meanwhile the sweep (server.py) closes the connections that have not read their answers for the longest time,
so that clients that do not read keep nothing from others.

VALUES_AT_ONCE (loop/turns.py) bounds the values of one message that the event loop encodes.
"""

from __future__ import annotations

from typing import Final

MOST_VALUES: Final = 4_000_000
"""The budget: as objects and as encoded bytes these take some 250 MB."""

BYTES_OF_A_VALUE: Final = 64
"""The memory of a value, roughly; the bytes of a text that count as one more value."""


class AnswerBudget:
    """Counts the values of the answers of all connections."""

    __slots__ = ("most", "ran_out", "values")

    def __init__(self, most: int = MOST_VALUES) -> None:
        self.most = most
        self.values = 0
        """The values that are charged to connections."""
        self.ran_out = False
        """Whether a connection was refused since the last sweep."""

    def take(self, values: int, own: int) -> bool:
        """Charge values to a connection with `own` ones; False if there is no room for them."""
        if self.values + values > self.most and self.values > own:
            self.ran_out = True
            return False
        self.values += values
        return True

    def give_back(self, values: int) -> None:
        """The client has read the answer, or is gone."""
        self.values -= values
