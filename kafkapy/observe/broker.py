"""What tests ask of a broker or a cluster, in calls that block or from a coroutine.

Only the types are imported with this module: a broker's own modules come with its first start.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.observe.asking import Observed
    from kafkapy.observe.awaitable import AsyncGroup, AsyncTopic, AsyncTransaction
    from kafkapy.observe.blocking import Group, Topic, Transaction
    from kafkapy.observe.record import Record

    Write = Callable[[Observed], Coroutine[Any, Any, Record]]
    """Writes a record to a broker, or to all of a cluster."""

CREATION_SECONDS: Final = 30
"""How long the creation of topics may take."""

T = TypeVar("T")
Data = bytes | str | None
Headers = Mapping[str, Data] | Iterable[tuple[str, Data]]


class AskedBroker:
    """A broker, or a cluster, for whose answers a test waits."""

    def records(self, topic: str) -> list[Record]:
        """The records that a topic has now, by partition and offset, as `topic(…).records()`."""
        return self.topic(topic).records()

    def topic(self, name: str) -> Topic:
        """A topic, for its records and to wait for them; in a cluster, whichever brokers lead it."""
        from kafkapy.observe.blocking import Topic

        return Topic(self._call, name)

    def group(self, name: str) -> Group:
        """A group of any type, to wait for its members and its offsets."""
        from kafkapy.observe.blocking import Group

        return Group(self._call, name)

    def transaction(self, transactional_id: str) -> Transaction:
        """The last transaction of a transactional id, to wait for its end."""
        from kafkapy.observe.blocking import Transaction

        return Transaction(self._call, transactional_id)

    def _call(self, function: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run `function` with the broker, or with all of a cluster, on an event loop of theirs.

        Raises:
            RuntimeError: none is running, or the broker is paused, or is stopped meanwhile.
        """
        raise NotImplementedError


class AwaitedBroker:
    """A broker, or a cluster, whose answers a test awaits."""

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics of so many partitions each; raises ValueError as `Broker.create_topics`."""
        await self._call(partial(create_topics, topics=topics))

    async def produce(
        self,
        topic: str,
        *,
        key: Data = None,
        value: Data = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Record:
        """Write a record without a client, as `Broker.produce`, or as `Cluster.produce`."""
        write = producing(topic, key, value, headers, partition, timestamp)
        return await self._call(self._writing(topic, write))

    async def records(self, topic: str) -> list[Record]:
        """The records that a topic has now, by partition and offset."""
        return await self.topic(topic).records()

    def topic(self, name: str) -> AsyncTopic:
        """A topic, for its records and to wait for them."""
        from kafkapy.observe.awaitable import AsyncTopic

        return AsyncTopic(self._call, name)

    def group(self, name: str) -> AsyncGroup:
        """A group of any type, to wait for its members and its offsets."""
        from kafkapy.observe.awaitable import AsyncGroup

        return AsyncGroup(self._call, name)

    def transaction(self, transactional_id: str) -> AsyncTransaction:
        """The last transaction of a transactional id, to wait for its end."""
        from kafkapy.observe.awaitable import AsyncTransaction

        return AsyncTransaction(self._call, transactional_id)

    def _writing(self, topic: str, write: Write) -> Write:
        """The call that writes a record to a topic: `write` itself, or one that waits for its time."""
        return write

    async def _call(self, function: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run `function` with the broker, or with all of a cluster, on an event loop of theirs.

        Raises:
            RuntimeError: none is running, or the broker is paused, or is stopped meanwhile.
        """
        raise NotImplementedError


async def create_topics(core: BrokerCore, topics: Mapping[str, int]) -> None:
    """Create topics of so many partitions each; raises ValueError."""
    from kafkapy.protocol.errors import ErrorCode
    from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

    wanted = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
        for name, partitions in topics.items()
    ]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=CREATION_SECONDS * 1000)
    created = (await core.loopback.ask(request, seconds=CREATION_SECONDS)).topics
    refused = [
        f"topic {each.name}: {each.error_message or ErrorCode(each.error_code).name}"
        for each in created
        if each.error_code
    ]
    if refused:
        raise ValueError(" ".join(refused))


def producing(
    topic: str, key: Data, value: Data, headers: Headers, partition: int | None, timestamp: int | None
) -> Write:
    """A call that writes a record to a broker, or to all of a cluster."""
    from kafkapy.observe.topic import produce

    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return partial(
        produce, name=topic, key=key, value=value, headers=pairs, partition=partition, timestamp=timestamp
    )


def when_possible(topic: str, write: Write) -> Write:
    """A call that writes when the partition can be written.

    It raises NotSeenError after ten seconds.
    """
    from kafkapy.observe.waiting import PATIENCE, until

    return lambda observed: until(lambda: write(observed), f"{topic} to take a record", PATIENCE)
