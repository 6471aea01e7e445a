"""Asks share coordinators, for group coordinators and for leaders of partitions.

The coordinator of a share partition leads a partition of `__share_group_state`, which is created when it is
first needed. While a coordinator moves or loads, it is asked again. Source: Apache Kafka's
DefaultStatePersister, PersisterStateManager, NetworkPartitionMetadataClient.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from kafkapy.coordination.partitioning import partition_of
from kafkapy.groups.share.member import Partitions
from kafkapy.groups.share.persister import SharePartitionErrors, StateSummary
from kafkapy.inter_broker.peers import PeerError
from kafkapy.loop.turns import Turns
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    list_offsets,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kafkapy.protocol.special_timestamps import LATEST
from kafkapy.protocol.topic_names import SHARE_GROUP_STATE_TOPIC
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import UNKNOWN
from kafkapy.share.state_records import ShareKey

ATTEMPTS: Final = 8
FIRST_PAUSE_SECONDS: Final = 0.1
MOST_PAUSE_SECONDS: Final = 5.0
CONSUMER: Final = -1

_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)

T = TypeVar("T")


class Ask(Protocol):
    """Asks a broker (`kafkapy.inter_broker.inter_broker.InterBroker.ask`)."""

    async def __call__(self, broker_id: int, request: Any, *, seconds: float) -> Any:
        """Send a request to a broker, and return the answer; raises PeerError or KafkaError."""


class StoredState:
    """The answer of a share coordinator to the leader of a partition."""

    def __init__(self, state_epoch: int, start_offset: int, batches: list[StoredBatch]) -> None:
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.batches = batches


class Persister:
    """Asks share coordinators (`kafkapy.groups.share.persister.StateKeeper`)."""

    def __init__(
        self,
        metadata: MetadataCache,
        ask: Ask,
        ensure_topic: Callable[[str], Awaitable[object]],
        turns: Turns,
        *,
        seconds: float,
    ) -> None:
        """`ensure_topic` creates an internal topic if it is missing.

        `seconds` is the limit of each request.
        """
        self._metadata = metadata
        self._ask = ask
        self._ensure_topic = ensure_topic
        self._turns = turns
        self._seconds = seconds

    # --- for leaders of partitions --------------------------------------------------------------------

    async def read(self, key: ShareKey, leader_epoch: int) -> StoredState:
        """The state of a share partition, for its leader with this epoch.

        Raises:
            KafkaError: it cannot be read, or the leader is fenced.
        """
        messages = read_share_group_state
        request = messages.ReadShareGroupStateRequest(
            group_id=key.group_id,
            topics=[
                messages.ReadStateData(
                    topic_id=key.topic_id,
                    partitions=[messages.PartitionData(partition=key.partition, leader_epoch=leader_epoch)],
                )
            ],
        )
        result = await self._result(key, request)
        batches = [
            StoredBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in result.state_batches
        ]
        return StoredState(result.state_epoch, result.start_offset, batches)

    async def write(
        self,
        key: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StoredBatch],
    ) -> None:
        """Store what the leader of a partition decided.

        Raises:
            KafkaError: it cannot be stored, or the leader is fenced.
        """
        messages = write_share_group_state
        data = messages.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                messages.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        request = messages.WriteShareGroupStateRequest(
            group_id=key.group_id,
            topics=[messages.WriteStateData(topic_id=key.topic_id, partitions=[data])],
        )
        await self._result(key, request)

    # --- for group coordinators -----------------------------------------------------------------------

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[Uuid, Mapping[int, int]]
    ) -> SharePartitionErrors:
        """Let share partitions begin at these offsets."""
        messages = initialize_share_group_state

        def request(key: ShareKey) -> Any:
            data = messages.PartitionData(
                partition=key.partition,
                state_epoch=state_epoch,
                start_offset=offsets[key.topic_id][key.partition],
            )
            return messages.InitializeShareGroupStateRequest(
                group_id=group_id,
                topics=[messages.InitializeStateData(topic_id=key.topic_id, partitions=[data])],
            )

        return _errors(await self._each(group_id, offsets, request))

    async def delete(self, group_id: str, partitions: Partitions) -> SharePartitionErrors:
        """Forget the states of share partitions."""
        messages = delete_share_group_state

        def request(key: ShareKey) -> Any:
            data = messages.PartitionData(partition=key.partition)
            return messages.DeleteShareGroupStateRequest(
                group_id=group_id,
                topics=[messages.DeleteStateData(topic_id=key.topic_id, partitions=[data])],
            )

        return _errors(await self._each(group_id, partitions, request))

    async def summaries(
        self, group_id: str, partitions: Mapping[Uuid, Collection[int]]
    ) -> Mapping[tuple[Uuid, int], StateSummary | KafkaError]:
        """The summary of each share partition."""
        messages = read_share_group_state_summary

        def request(key: ShareKey) -> Any:
            data = messages.PartitionData(partition=key.partition, leader_epoch=UNKNOWN)
            return messages.ReadShareGroupStateSummaryRequest(
                group_id=group_id,
                topics=[messages.ReadStateSummaryData(topic_id=key.topic_id, partitions=[data])],
            )

        results = await self._each(group_id, partitions, request)
        return {
            place: result
            if isinstance(result, KafkaError)
            else StateSummary(result.start_offset, result.delivery_complete_count, result.leader_epoch)
            for place, result in results.items()
        }

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        """The end offset of each partition, from its leader."""
        messages = list_offsets
        found: dict[TopicPartition, int | ErrorCode] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            state = self._metadata.image.partition(*each)
            if state is None or state.leader < 0:
                found[each] = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state is None else ErrorCode.LEADER_NOT_AVAILABLE
                )
            else:
                by_leader.setdefault(state.leader, []).append(each)
        for leader, asked in by_leader.items():
            request = messages.ListOffsetsRequest(
                replica_id=CONSUMER,
                topics=[
                    messages.ListOffsetsTopic(
                        name=each.topic,
                        partitions=[
                            messages.ListOffsetsPartition(partition_index=each.partition, timestamp=LATEST)
                        ],
                    )
                    for each in asked
                ],
            )
            try:
                response = await self._ask(leader, request, seconds=self._seconds)
            except PeerError:
                found.update(dict.fromkeys(asked, ErrorCode.LEADER_NOT_AVAILABLE))
                continue
            for topic in response.topics:
                for data in topic.partitions:
                    error = ErrorCode(data.error_code)
                    found[TopicPartition(topic.name, data.partition_index)] = error or data.offset
        return found

    # --- requests -------------------------------------------------------------------------------------

    async def _each(
        self, group_id: str, partitions: Mapping[Uuid, Iterable[int]], request: Callable[[ShareKey], Any]
    ) -> dict[tuple[Uuid, int], Any]:
        """The result for each share partition, or its KafkaError."""
        turn = self._turns.begin()
        results: dict[tuple[Uuid, int], Any] = {}
        async with asyncio.TaskGroup() as tasks:
            for topic, numbers in partitions.items():
                for each in numbers:
                    if turn.is_over():
                        await turn.end()
                    key = ShareKey(group_id, topic, each)
                    tasks.create_task(self._note_result(key, request(key), results))
        return results

    async def _note_result(self, key: ShareKey, request: Any, results: dict[tuple[Uuid, int], Any]) -> None:
        """Add the result for one share partition, or its KafkaError, to `results`."""
        try:
            results[key.topic_id, key.partition] = await self._result(key, request)
        except KafkaError as error:
            results[key.topic_id, key.partition] = error

    async def _result(self, key: ShareKey, request: Any) -> Any:
        """The coordinator's result for one share partition; raises KafkaError."""
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(ATTEMPTS):
            try:
                return await self._ask_coordinator(key, request)
            except KafkaError as error:
                if error.code not in _AGAIN or attempt == ATTEMPTS - 1:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE_SECONDS)
        raise AssertionError("the last attempt has raised its error")

    async def _ask_coordinator(self, key: ShareKey, request: Any) -> Any:
        topics = self._metadata.image.topics
        if SHARE_GROUP_STATE_TOPIC not in topics:
            try:
                await self._ensure_topic(SHARE_GROUP_STATE_TOPIC)
            except KafkaError as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
            topics = self._metadata.image.topics
        topic = topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_of(key.coordinator_key, len(topic.partitions))].leader
        if leader < 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            response = await self._ask(leader, request, seconds=self._seconds)
        except PeerError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        if not response.results:  # a coordinator answers so if there is no group id
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        result = response.results[0].partitions[0]
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
        return result


def _errors(results: Mapping[tuple[Uuid, int], Any]) -> SharePartitionErrors:
    return {place: result for place, result in results.items() if isinstance(result, KafkaError)}
