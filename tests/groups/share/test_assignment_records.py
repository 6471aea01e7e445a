"""Records of members' partitions are encoded as the codec does it."""

from __future__ import annotations

import random

from kafkapy.groups.modern.change import Change, encode_change
from kafkapy.groups.share.member import ShareMember
from kafkapy.groups.share.records import STABLE, current_assignment
from kafkapy.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)


def test_an_assignment_is_encoded_as_the_codec_does_it() -> None:
    source = random.Random(7)
    for _ in range(100):
        assigned = {
            source.randbytes(16): frozenset(source.sample(range(300), source.choice([1, 1, 2, 200])))
            for _ in range(source.choice([0, 1, 3, 200]))
        }
        member = ShareMember(
            "member", epoch=source.randrange(99), previous_epoch=source.randrange(-1, 99), assigned=assigned
        )
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                TopicPartitions(topic_id=topic, partitions=sorted(partitions))
                for topic, partitions in assigned.items()
            ],
        )
        key = ShareGroupCurrentMemberAssignmentKey(group_id="group", member_id="member")
        assert current_assignment("group", member) == encode_change(Change(key, value))
