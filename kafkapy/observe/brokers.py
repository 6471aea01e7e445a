"""All brokers of a cluster, in place of one: each request goes to those that can answer it.

What reads a topic, a group or a transaction is given a broker, or this. It looks as a broker does from there:
it has the metadata of one, on whose event loop it is asked. Requests for a partition go to its leader, those
about groups and transactions to all, of which the coordinator knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkapy.observe.waiting import NotLedError, NotNowError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.storage.disk.files import FileSlice

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore

Ask = Callable[[TopMessage], Awaitable[Any]]
"""Has a broker answer; raises RuntimeError if it does not run."""

_NOT_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The broker does not know yet that it leads the partition, or does not lead it any more."""


class Brokers:
    """The brokers of a cluster.

    Args:
        core: one of them, whose loop this is.
        asks: how each of those that run now is asked, by its id.
    """

    def __init__(self, core: BrokerCore, asks: Callable[[], Mapping[int, Ask]]) -> None:
        self.metadata, self.turns, self.clock = core.metadata, core.turns, core.clock
        self.loopback = self
        self._core, self._asks = core, asks

    async def ask(self, request: TopMessage, *, seconds: float) -> Any:
        """The answer of the broker that can give one, or of several together.

        Raises:
            NotNowError: no broker that runs leads a partition, or too few replicas of it are in sync.
        """
        match request:
            case MetadataRequest():
                return await self._core.loopback.ask(request, seconds=seconds)
            case FetchRequest():
                (topic,) = request.topics
                return await self._leader(topic.topic, topic.partitions[0].partition)(request)
            case ProduceRequest():
                return await self._produce(request)
            case ListOffsetsRequest():
                return await self._offsets(request, seconds)
            case ListGroupsRequest():
                first, *others = [answer async for answer in self._of_all(request)]
                for answer in others:
                    first.groups += answer.groups
                return first
            case _:
                return await self._of_coordinator(request)

    def _leader(self, topic: str, index: int) -> Ask:
        """How the leader of a partition is asked."""
        state = self.metadata.image.topics[topic].partitions[index]
        asking = self._asks().get(state.leader)

        async def ask(request: TopMessage) -> Any:
            try:
                if asking is not None:
                    return await asking(request)
            except RuntimeError:
                pass  # it has stopped, or is paused
            raise NotLedError(topic, index, of_all=True)

        return ask

    async def _produce(self, request: ProduceRequest) -> Any:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        answer = await self._leader(topic.name, partition.index)(request)
        written = answer.responses[0].partition_responses[0]
        if written.error_code in _NOT_HERE:
            raise NotLedError(topic.name, partition.index, of_all=True)
        if written.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            raise NotNowError(written.error_message)
        return answer

    async def _offsets(self, request: ListOffsetsRequest, seconds: float) -> Any:
        answers = []
        for topic in request.topics:
            for partition in topic.partitions:
                asked = ListOffsetsRequest(
                    replica_id=request.replica_id,
                    isolation_level=request.isolation_level,
                    topics=[ListOffsetsTopic(name=topic.name, partitions=[partition])],
                )
                answers.append(await self._leader(topic.name, partition.partition_index)(asked))
        if not answers:
            return await self._core.loopback.ask(request, seconds=seconds)
        first, *others = answers
        for each in others:
            first.topics += each.topics
        return first

    async def _of_coordinator(self, request: TopMessage) -> Any:
        """The answer without an error, which a coordinator gives; if there is none, any."""
        answer = None
        async for answer in self._of_all(request):
            if all(not each.error_code for each in _entries(answer)):
                return answer
        return answer

    async def _of_all(self, request: TopMessage) -> Any:
        for asking in self._asks().values():
            try:
                yield await asking(request)
            except RuntimeError:
                continue  # it has stopped, or is paused


def _entries(answer: Any) -> Iterable[Any]:
    """What an answer has for each group or transactional id."""
    entries: Iterable[Any] = (
        answer.transaction_states if hasattr(answer, "transaction_states") else answer.groups
    )
    return entries


async def answered(core: BrokerCore, request: TopMessage, seconds: float) -> Any:
    """The answer of a broker on its own loop, without slices of its files."""
    answer = await core.loopback.ask(request, seconds=seconds)
    if isinstance(request, FetchRequest):
        for topic in answer.responses:
            for each in topic.partitions:
                if isinstance(each.records, FileSlice):
                    try:
                        records = each.records.read()
                    finally:
                        each.records.release()
                    each.records = records
    return answer
