"""How much memory the members of all groups may take by their metadata.

A member is counted with its ids, its rack, the topics to which it subscribes, the protocols of classic
groups, and the tags of streams groups. So are the member ids that are handed out, the assignments that the
leaders of classic groups give, and the topologies of streams groups. Each group keeps its total up to date,
and so do all groups together (`kafkapy.groups.groups`): a member that joins costs no walk over the others.

All members together stay below a limit. The last part of it is for small members, so that a few large ones
do not keep everybody out. A member that does not grow may stay, whatever the others take. (Apache Kafka has
no such limit.)

A regular expression is short, but the names of the topics that it matches are kept. Before they are known,
it counts as if it matched all topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkapy.groups.member_total import PROTOCOL_BYTES, TAG_BYTES, MemberTotal, regex_bytes
from kafkapy.protocol.errors import ErrorCode, KafkaError

MAX_MEMBER_BYTES: Final = 4 << 20
"""The most bytes of one member. Subscriptions to 10,000 topics take some 500 KiB for each assignor."""
MAX_PROTOCOLS: Final = MAX_MEMBER_BYTES // PROTOCOL_BYTES
"""More protocols exceed MAX_MEMBER_BYTES, whatever they are."""
MAX_TAGS: Final = MAX_MEMBER_BYTES // TAG_BYTES + 1
"""So many tags of a member of a streams group exceed MAX_MEMBER_BYTES, whatever they are."""


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """How many bytes the members of all groups may take."""

    nbytes: int = 128 << 20
    """Some 30,000 members of an ordinary size."""
    for_small: int = 64 << 20
    """The part of it that is only for small members."""
    small: int = 16 << 10
    """The most bytes of a small member."""


class MemberMemory(MemberTotal):
    """The memory that the members of all groups take, and its limits."""

    __slots__ = ("limits",)

    def __init__(self) -> None:
        super().__init__()
        self.limits = MemberLimits()

    def has_room(self, nbytes: int) -> bool:
        """Whether members that are there already may take so many bytes more."""
        return nbytes <= 0 or self.nbytes + nbytes <= self.limits.nbytes

    def require_room(self, nbytes: int, *, replaced: int, topics: int) -> None:
        """Refuse a member of so many bytes if there is no room for it among all members.

        `replaced` are the bytes of the same member as it is now; `topics` is the number of topics.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED.
        """
        if nbytes <= replaced:
            return
        held = self.nbytes + self.unresolved_regexes * regex_bytes(topics) - replaced
        most = self.limits.nbytes
        if nbytes > self.limits.small:
            most -= self.limits.for_small
        if nbytes > MAX_MEMBER_BYTES or held + nbytes > most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The member would take {nbytes:,} bytes of memory. One member may take "
                f"{MAX_MEMBER_BYTES:,}, and with it all members {most:,}, of which the others take {held:,}.",
            )
