"""An answer with an error can be made for each API that the broker serves, in each version."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kafkapy.faults.error_answers import ErrorAnswers
from kafkapy.faults.faults import WITHOUT_PARTS
from kafkapy.faults.filter import PARTITION, Filter
from kafkapy.faults.kinds import NAMED_BY_ANSWERS, Error
from kafkapy.handlers import IN_CLUSTER, Api
from kafkapy.network.error_finder import error_finder
from kafkapy.protocol.codec import encode_parts, schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.schema import Field, Struct
from kafkapy.protocol.types import ApiKey

TOPIC_ID = bytes(range(16))
PARTS = [Filter(), Filter("orders"), Filter("orders", 7)]


def topic_name(topic_id: bytes) -> str | None:
    return "orders" if topic_id == TOPIC_ID else None


def answers(version: int) -> ErrorAnswers:
    return ErrorAnswers(ErrorCode.NOT_CONTROLLER, version, topic_name)


def filled(message: type[Any], struct: Struct, version: int) -> Any:
    """A message whose arrays have one element each, and which names orders-7 throughout."""
    made = message()
    for field in struct.fields:
        if version in field.versions:
            value = _value(field, message, version)
            if value is not None:
                setattr(made, field.name, [value] if field.is_array else value)
    return made


def _value(field: Field, message: type[Any], version: int) -> Any:
    if field.struct is not None:
        return filled(
            getattr(sys.modules[message.__module__], field.struct.class_name), field.struct, version
        )
    if field.name == "topic_id":
        return TOPIC_ID
    if field.is_array:
        return {"string": "orders", "uuid": TOPIC_ID}.get(field.type, 7)
    if field.type == "records":
        return b""
    return "orders" if field.type == "string" else 7 if field.name in PARTITION else None


@pytest.mark.parametrize("api", IN_CLUSTER, ids=lambda api: api.key.name)
def test_every_api_has_an_answer_with_the_error(api: Api) -> None:
    """Alone, for a topic, and for a partition, as far as the answers name these."""
    asks, response = request_class(api.key), response_class(api.key)
    for version in range(api.min_version, api.max_version + 1):
        request = filled(asks, schema_of(asks).root, version)
        before = encode_parts(request, version)
        for concerned in PARTS:
            made = answers(version)
            if api.key in NAMED_BY_ANSWERS and not concerned.is_met:
                served = filled(response, schema_of(response).root, version)
                made.overwrite(made.places(served, concerned))
                encode_parts(served, version)
                continue
            left, refused = made.split(request, response, concerned)
            if refused is None:
                assert not concerned.is_met
                assert api.key in WITHOUT_PARTS or not _has_error_for(response, concerned, version)
                continue
            assert left is None
            assert ErrorCode.NOT_CONTROLLER in error_finder(type(refused))(refused)
            encode_parts(refused, version)
        assert encode_parts(request, version) == before


def _has_error_for(response: type[TopMessage], concerned: Filter, version: int) -> bool:
    made = filled(response, schema_of(response).root, version)
    return bool(answers(version).places(made, concerned))


def test_a_request_is_split_by_partitions() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=index) for index in (6, 7)]
            )
            for name in ("orders", "bills")
        ]
    )
    left, refused = answers(9).split(request, response_class(ApiKey.PRODUCE), Filter("orders", 7))
    assert [(topic.name, [each.index for each in topic.partition_data]) for topic in left.topic_data] == [
        ("orders", [6]),
        ("bills", [6, 7]),
    ]
    ((topic),) = refused.responses
    assert (topic.name, [(each.index, each.error_code) for each in topic.partition_responses]) == (
        "orders",
        [(7, ErrorCode.NOT_CONTROLLER)],
    )
    assert [len(topic.partition_data) for topic in request.topic_data] == [2, 2]


def test_the_records_of_a_fetch_go_with_the_error() -> None:
    partitions = [PartitionData(partition_index=index, records=b"records") for index in (6, 7)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)])
    made = answers(18)
    made.overwrite(made.places(response, Filter("orders", 7)))
    assert [(each.error_code, each.records) for each in partitions] == [
        (0, b"records"),
        (ErrorCode.NOT_CONTROLLER, b""),
    ]


def test_an_error_shows_as_it_was_written() -> None:
    assert str(Error(ErrorCode.NOT_CONTROLLER)) == "error('NOT_CONTROLLER')"
