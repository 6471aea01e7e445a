"""Gives the checker what the clients of a run see, and ends the run at the first anomaly.

A topic that is deleted and created again has a witness for each of its lives.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.virtual.world import World
from tests.promises.checker import Checker
from tests.promises.history import Acked, EndAsked, Event, Finding, Partition


class Witness:
    """Sees what all clients see."""

    def __init__(self, world: World, leader: Callable[[Partition], int] | None = None) -> None:
        """`leader` tells which broker leads a partition, as the metadata tree has it.

        Without it there is only one broker. With several, a client with old metadata may ask a leader that
        does not know yet that it is none any more: it tells readers an older end, and takes the next batch of
        a producer for one out of order.
        """
        self._world = world
        self._leader = leader
        self._checker = Checker(self._found)
        self.at_next_acknowledgement: list[Callable[[], None]] = []
        """Called once, when a producer is told the next time that a record is written."""

    def see(self, event: Event) -> None:
        """Take in what a client sees or does."""
        self._checker.see(event)
        if isinstance(event, Acked):
            calls, self.at_next_acknowledgement = self.at_next_acknowledgement, []
            for call in calls:
                call()

    def see_end_asked(self, reader: str, partition: Partition) -> None:
        """A reader asks for the high watermark; of several brokers it may ask a former leader."""
        self._checker.see(EndAsked(reader, partition, of_all=self._leader is None))

    def known_end(self, partition: Partition) -> int:
        """The offset that the partition is known to reach, though not every answer may tell it yet."""
        return self._checker.known_end(partition)

    def is_led_by(self, broker: int, partition: Partition) -> bool:
        """Whether a broker is the latest leader of a partition.

        Then it has every acknowledged record.
        """
        return self._leader is None or self._leader(partition) == broker

    def judge(self) -> None:
        """Find what only the whole history shows; readers have read everything."""
        self._checker.check_history()

    def _found(self, finding: Finding) -> None:
        self._world.failed(str(finding))
