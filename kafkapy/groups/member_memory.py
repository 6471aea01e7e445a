"""How much memory the members of all groups may take by what they say of themselves.

They say to what topics they subscribe, those of classic groups give bytes of their own for each protocol, and
those of streams groups have tags.
Small members may always join: group.max.size and group.consumer.max.size limit their number. A larger one may
join as long as all members together stay below a limit. (Apache Kafka has none.)

A regular expression is short, but the names of the topics that it matches are kept. Before they are known,
it counts as if it matched all topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkapy.groups.classic.member import PROTOCOL_BYTES
from kafkapy.groups.group import Group
from kafkapy.groups.streams.member import TAG_BYTES
from kafkapy.protocol.errors import ErrorCode, KafkaError

MAX_MEMBER_BYTES: Final = 4 << 20
"""The most bytes of one member. Subscriptions to 10,000 topics take some 500 KiB for each assignor."""
MAX_MEMBERS_BYTES: Final = 64 << 20
"""The most bytes of all members. Beyond this, only members up to SMALL_MEMBER_BYTES may join."""
SMALL_MEMBER_BYTES: Final = 64 << 10
MAX_PROTOCOLS: Final = MAX_MEMBER_BYTES // PROTOCOL_BYTES
"""More protocols exceed MAX_MEMBER_BYTES, whatever they are."""
MAX_TAGS: Final = MAX_MEMBER_BYTES // TAG_BYTES + 1
"""So many tags of a member of a streams group exceed MAX_MEMBER_BYTES, whatever they are."""


def require_room(nbytes: int, groups: Iterable[Group], *, replaced: int, topics: int) -> None:
    """Refuse a member of so many bytes if there is no room for it.

    `replaced` are the bytes of the same member as it is now; `topics` is the number of topics.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED.
    """
    if nbytes <= SMALL_MEMBER_BYTES:
        return
    held = sum(group.member_bytes(topics) for group in groups) - replaced
    if nbytes > MAX_MEMBER_BYTES or held + nbytes > MAX_MEMBERS_BYTES:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The member would take {nbytes:,} bytes of memory. One member may take {MAX_MEMBER_BYTES:,}, "
            f"and all members {MAX_MEMBERS_BYTES:,}, of which the others take {held:,}.",
        )
