"""Where the offsets of a group would go, and moving them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from kafkapy.commands.connection.admin import Admin
from kafkapy.commands.connection.failures import failure_text
from kafkapy.commands.group_state import committed
from kafkapy.commands.reading import ends, since, starts
from kafkapy.commands.share_offsets import set_share_offsets
from kafkapy.commands.streams_topics import is_internal
from kafkapy.errors import UserError


def offset_moves(
    admin: Admin, name: str, type_: str, partitions: Sequence[Any] | None, how: str, value: Any
) -> list[dict[str, Any]]:
    """Rows with the offset of each partition before and after; nothing is moved.

    Args:
        partitions: all for which the group has offsets, if it is None; but not those of topics that a streams
            group has for itself: it would take in their records again beside those that it makes anew.
        how: to_earliest, to_latest, to_current, to_offset, to_time (in milliseconds since 1970) or shift_by.
        value: the offset, the time or the number of records.

    Raises:
        UserError: an offset is to be moved from where it is, and there is none.
    """
    before = committed(admin, {name: type_}).get(name, {})
    if partitions is None:
        partitions = sorted(
            each for each in before if type_ != "streams" or not is_internal(each.topic, name)
        )
    first, last = starts(admin, partitions), ends(admin, partitions)
    if how == "to_time":
        wanted = since(admin, partitions, value)
    elif how in ("shift_by", "to_current"):
        if missing := [each for each in partitions if each not in before]:
            each = missing[0]
            raise UserError(f"group {name} has no offset for {each.topic}:{each.partition} yet")
        wanted = {each: before[each] + (value if how == "shift_by" else 0) for each in partitions}
    else:
        wanted = {"to_earliest": first, "to_latest": last}.get(how) or dict.fromkeys(partitions, value)
    return [
        {
            "group": name,
            "topic": each.topic,
            "partition": each.partition,
            "before": before.get(each),
            "after": min(max(wanted[each], first[each]), last[each]),
        }
        for each in partitions
    ]


def set_offsets(admin: Admin, name: str, type_: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set offsets of a group without members; raises UserError if the cluster refuses one."""
    if type_ == "share":
        set_share_offsets(admin, name, {TopicPartition(*place): offset for place, offset in offsets.items()})
        return
    wanted = {
        TopicPartition(*place): OffsetAndMetadata(offset, "", None) for place, offset in offsets.items()
    }
    with admin.calls() as client:
        answers = client.alter_group_offsets(name, wanted)
    for each, error in answers.items():
        if error is not None and error.errno:
            raise UserError(f"group {name}, {each.topic}:{each.partition}: {failure_text(error.errno)}")
