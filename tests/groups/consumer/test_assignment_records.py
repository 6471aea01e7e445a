"""Records of members' partitions are encoded as the codec does it."""

from __future__ import annotations

import random

from kafkapy.groups.consumer.member import ConsumerMember, MemberState, Partitions
from kafkapy.groups.consumer.records import current_assignment, encoded_current_assignment
from kafkapy.groups.modern.change import encode_change


def random_partitions(source: random.Random) -> Partitions:
    return {
        source.randbytes(16): {
            each: source.choice([1, 2, 300])
            for each in source.sample(range(300), source.choice([1, 1, 2, 200]))
        }
        for _ in range(source.choice([0, 1, 3, 200]))
    }


def test_an_assignment_is_encoded_as_the_codec_does_it() -> None:
    source = random.Random(7)
    for _ in range(100):
        member = ConsumerMember(
            "member",
            epoch=source.randrange(99),
            previous_epoch=source.randrange(99),
            state=source.choice(list(MemberState)),
            assigned=random_partitions(source),
            revoking=random_partitions(source),
        )
        expected = encode_change(current_assignment("group", member))
        assert encoded_current_assignment("group", member) == expected
