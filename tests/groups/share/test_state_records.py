"""Records of share partitions' states are encoded as the codec does it."""

from __future__ import annotations

import random

from kafkapy.groups.modern.change import encode_change
from kafkapy.groups.share.records import StateRecords, state_partitions
from kafkapy.groups.share.state_partitions import StatePartitions, StateTopic, StateTopics

IDS = [bytes([number]) * 16 for number in range(6)]


def random_topics(source: random.Random) -> StateTopics:
    return {
        topic: StateTopic(
            f"topic-{topic[0]}" * source.choice([1, 40]), frozenset(source.sample(range(300), count))
        )
        for topic in source.sample(IDS, source.randint(0, len(IDS)))
        if (count := source.choice([1, 3, 200]))
    }


def test_a_record_is_encoded_as_the_codec_does_it() -> None:
    source, records = random.Random(5), StateRecords()
    partitions = StatePartitions()
    for _ in range(300):
        change = source.randrange(5)
        if change == 0:
            partitions = partitions.begin(random_topics(source))
        elif change == 1:
            partitions = partitions.complete(source.choice([partitions.initializing, random_topics(source)]))
        elif change == 2:
            partitions = partitions.give_up(random_topics(source))
        elif change == 3:
            partitions = partitions.delete(dict.fromkeys(random_topics(source), "t"))
        else:
            partitions = partitions.forget(random_topics(source))
        assert records.encode("group", partitions) == encode_change(state_partitions("group", partitions))
