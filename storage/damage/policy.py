"""The choice of what becomes of damage: it is served around, or the log is truncated there.

Records below the recovery point were on disk once. Where no other replica has them, none that is good may be
lost with those that are not: the log serves around the damage. A follower's leader has them all: the follower
truncates its log at the damage and fetches from there again. So the choice is that of the partition's role
(kafkapy/replicas/replication.py). The code that finds damage asks the policy of the log:

    recovery      the role is not known when a log is loaded. Recovery serves around the damage, and loses
                  nothing. The log gets another policy when the role is known.
    first reads   the policy is applied before the read is answered (first_read.py).
    compaction    never rewrites damaged batches, whatever the policy.

Torn batches above the recovery point are not damage: recovery truncates them.
"""

from __future__ import annotations

import logging
import os
from typing import Final, Protocol

from kafkapy.storage.damage.damage import DamagedRange, joined, load_damage, report, save_damage
from kafkapy.storage.log.segment import Segment

logger = logging.getLogger(__name__)


class TruncatableLog(Protocol):
    """A log that can end before its damage."""

    def truncate_at_damage(self) -> None:
        """Truncate the log where its first known damage begins; without damage do nothing."""


class DamagePolicy(Protocol):
    """The way in which a log handles damage below its recovery point."""

    def found(self, segment: Segment, damage: list[DamagedRange], reason: str) -> bool:
        """Note the damage of a segment; return whether that is news.

        Raises:
            DamageTruncatesError: the log has to be truncated first.
        """

    def adopt(self, log: TruncatableLog) -> None:
        """Deal with what is known of a log that comes under this policy.

        Raises:
            StorageError: the disk failed.
        """


class DamageTruncatesError(Exception):
    """Damage was found, and the log has to be truncated there (`truncate_at_damage`)."""


class ServeAround:
    """The damage is noted in a file; the records before and after it are served."""

    __slots__ = ()

    def found(self, segment: Segment, damage: list[DamagedRange], reason: str) -> bool:
        """Note the damage of a segment, also for after a restart; return whether that is news."""
        new = _note(segment, damage)
        if not new:
            return False
        files, directory = segment.files, os.path.dirname(segment.path)
        for damaged in new:
            report(directory, segment.path, damaged, reason)
        try:
            known = load_damage(files, directory)
            # The file is not synced: damage that is not noted is found again at the next read.
            save_damage(files, directory, {**known, segment.base_offset: segment.damage}, durable=False)
        except OSError as error:
            logger.error("The damage of %s is not written down: %s", directory, error)
        return True

    def adopt(self, log: TruncatableLog) -> None:
        """Do nothing: reads skip known damage already."""


class TruncateAndRefetch:
    """The log ends where its damage begins; what follows is fetched again from the leader."""

    __slots__ = ()

    def found(self, segment: Segment, damage: list[DamagedRange], reason: str) -> bool:
        """Note the damage of a segment until the log is truncated there.

        Raises:
            DamageTruncatesError: that has to be done.
        """
        new = _note(segment, damage)
        if not new:
            return False
        logger.error("%s is damaged at byte %d: %s", segment.path, new[0].position, reason)
        raise DamageTruncatesError

    def adopt(self, log: TruncatableLog) -> None:
        """Truncate the log at what is known.

        Raises as `DamagePolicy.adopt`.
        """
        log.truncate_at_damage()


SERVE_AROUND: Final = ServeAround()
TRUNCATE_AND_REFETCH: Final = TruncateAndRefetch()


def _note(segment: Segment, damage: list[DamagedRange]) -> list[DamagedRange]:
    """Note the damage of a segment in memory; return what is new."""
    new = [damaged for damaged in damage if damaged not in segment.damage]
    if new:
        segment.damage = joined((*segment.damage, *new))
    return new
