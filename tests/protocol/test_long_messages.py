"""The number of values in a message is counted.

A budget limits it while a message is decoded.
"""

from __future__ import annotations

import pytest

from kafkapy.protocol import codec
from kafkapy.protocol.errors import OverBudgetError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.protocol.long_messages import array_paths, long_message
from tests.protocol.random_messages import message_classes

VERSION = 8


def request(groups: int, topics: int, partitions: int) -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(range(partitions)))
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic] * topics) for _ in range(groups)]
    )


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(0, 0, 0), (3, 0, 0), (2, 3, 0), (2, 3, 50)])
def test_values_within_values_count(groups: int, topics: int, partitions: int) -> None:
    message = request(groups, topics, partitions)
    holding = next(values for values in range(10_000) if not codec.holds_more(message, values))
    assert groups * topics * partitions <= holding <= groups * (6 + topics * (5 + partitions))
    data = codec.encode(message, VERSION)
    assert codec.decode(OffsetFetchRequest, data, VERSION, budget=holding).groups == message.groups


@pytest.mark.parametrize("message_class", message_classes(), ids=lambda each: each.__name__)
def test_each_array_is_counted(message_class: type[TopMessage]) -> None:
    last = message_class.VERSIONS[1]
    for path in array_paths(message_class, range(last, last + 1)):
        assert codec.holds_more(long_message(message_class, last, path, 10), 9), path


def test_a_null_array_holds_nothing() -> None:
    assert not codec.holds_more(MetadataRequest(topics=None), 0)
    assert codec.holds_more(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 0)


def test_a_message_over_its_budget_is_told_from_a_broken_one() -> None:
    data = codec.encode(request(1, 1, 100), VERSION)
    with pytest.raises(OverBudgetError, match="OffsetFetchRequest v8: more values"):
        codec.decode(OffsetFetchRequest, data, VERSION, budget=99)
