"""The answers to all clients together have a budget of memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.network.answer_budget import AnswerBudget
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages import describe_configs, describe_groups, list_groups, offset_fetch
from kafkapy.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kafkapy.storage.log.producers import ProducerEntry
from tests.handlers.group_client import commit
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient, eventually

PARTITIONS, PRODUCERS = 20, 500
ALL = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(PARTITIONS)))])
VALUES = 6 * PARTITIONS * PRODUCERS
"""The values of its answer, which are more bytes than the sockets take."""


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    """Has a topic with many producers."""
    with kafkapy.Broker(config={"socket.send.buffer.bytes": 16384}) as started:
        with RawClient(started.bootstrap_servers) as client:
            create_topic(client, "t", partitions=PARTITIONS)

        async def know(core: BrokerCore) -> None:
            now = int(time.time() * 1000)
            for index in range(PARTITIONS):
                producers = {}
                for producer_id in range(PRODUCERS):
                    entry = producers[producer_id] = ProducerEntry()
                    entry.epoch, entry.last_timestamp = 0, now
                    entry.add_batch(0, 0, 0, now)
                log = core.replicas.partition("t", index).log
                log.producers.restore(producers, log.log_end_offset)

        started.call(know)
        yield started


def budget(broker: kafkapy.Broker, most: int) -> AnswerBudget:
    """The broker's budget, made smaller."""

    async def bound(core: BrokerCore) -> AnswerBudget:
        core.server.shared.answers.most = most
        return core.server.shared.answers

    return broker.call(bound)


def all_are_answered(broker: kafkapy.Broker) -> bool:
    async def look(core: BrokerCore) -> bool:
        return not any(connection.waits_for_answer for connection in core.server.connections)

    return broker.call(look)


def described(response: DescribeProducersResponse) -> int:
    """The producers in an answer, whose only error is one after which clients ask again."""
    found = 0
    for partition in response.topics[0].partitions:
        assert partition.error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert bool(partition.error_code) is not bool(partition.active_producers)
        found += len(partition.active_producers)
    return found


def test_answers_that_nobody_reads_stay_within_the_budget(broker: kafkapy.Broker) -> None:
    answers = budget(broker, VALUES * 2)
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            hog = stack.enter_context(RawClient(broker.bootstrap_servers))
            hog.send(encode_request(ALL, 0, 7, "raw"))
            eventually(lambda: all_are_answered(broker), "the request is answered")
            assert answers.values <= VALUES * 2
    eventually(lambda: not answers.values, "the memory of clients that have gone is free")


def test_a_client_that_reads_is_served_and_those_that_do_not_are_closed(broker: kafkapy.Broker) -> None:
    answers = budget(broker, VALUES)
    with contextlib.ExitStack() as stack:
        hogs = [stack.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(4)]
        for hog in hogs:
            hog.send(encode_request(ALL, 0, 7, "raw"))
            eventually(
                lambda: all_are_answered(broker) and answers.values > 0, "an answer waits for a reader"
            )
        honest = stack.enter_context(RawClient(broker.bootstrap_servers))
        eventually(
            lambda: described(honest.ask(ALL, 0)) == PARTITIONS * PRODUCERS, "the honest client is served"
        )
        assert hogs[0].is_closed()


def test_a_single_client_may_have_an_answer_larger_than_the_budget(broker: kafkapy.Broker) -> None:
    answers = budget(broker, VALUES // 10)
    with RawClient(broker.bootstrap_servers) as client:
        assert described(client.ask(ALL, 0)) == PARTITIONS * PRODUCERS
        eventually(lambda: not answers.values, "what is read is free again")


@pytest.mark.parametrize(
    ("request_", "version", "error"),
    [
        (describe_groups.DescribeGroupsRequest(groups=["g"]), 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (list_groups.ListGroupsRequest(), 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (
            offset_fetch.OffsetFetchRequest(
                groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
            ),
            9,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
        (
            describe_configs.DescribeConfigsRequest(
                resources=[describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t")]
            ),
            4,
            ErrorCode.REQUEST_TIMED_OUT,
        ),
    ],
    ids=lambda each: type(each).__name__ if hasattr(each, "KEY") else None,
)
def test_beyond_the_budget_clients_are_told_to_ask_again(
    broker: kafkapy.Broker, request_: object, version: int, error: ErrorCode
) -> None:
    with RawClient(broker.bootstrap_servers) as client, RawClient(broker.bootstrap_servers) as hog:
        find(client, "g")
        commit(client, "g", {("t", 0): 5})
        commit(client, "g2", {("t", 0): 5})
        answers = budget(broker, VALUES)
        hog.send(encode_request(ALL, 0, 7, "raw"))
        eventually(lambda: answers.values == VALUES, "the answer waits for its reader")
        answers.most = 0
        response = client.ask(request_, version)  # type: ignore[arg-type]
        found = [response, *getattr(response, "groups", ()), *getattr(response, "results", ())]
        assert error in [getattr(each, "error_code", None) for each in found]
