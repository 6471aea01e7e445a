"""The generated functions find the errors that a look at every field finds."""

from __future__ import annotations

import random

import pytest

from kafkapy.network.error_finder import error_finder
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkapy.protocol.schema import Struct
from tests.protocol.random_messages import message_classes, random_message, versions_of

SEED = 20261129
RESPONSES = [each for each in message_classes() if each.__name__.endswith("Response")]


def slowly_found(message: Message, struct: Struct) -> list[int]:
    """The errors in a part of an answer, by its schema."""
    found: list[int] = []
    for field in struct.fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found += [value] if value else []
        elif field.is_array and field.struct is not None:
            for each in value or ():
                found += slowly_found(each, field.struct)
    return found


@pytest.mark.parametrize("response_class", RESPONSES, ids=lambda found: found.__name__)
def test_all_errors_of_an_answer_are_found(response_class: type[TopMessage]) -> None:
    source = random.Random(f"{SEED} {response_class.__name__}")
    find = error_finder(response_class)
    for version in versions_of(response_class):
        for _ in range(5):
            response = random_message(source, response_class, version)
            assert find(response) == slowly_found(response, schema_of(response_class).root), response


def test_partitions_that_a_transaction_may_not_have_count_as_in_apache_kafka() -> None:
    refused = AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=48)
    fine = AddPartitionsToTxnPartitionResult(partition_index=2)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[refused, fine])
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    assert error_finder(AddPartitionsToTxnResponse)(response) == [48]
