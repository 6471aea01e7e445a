"""Simulated clients: they send whole messages, try again, and write down what they saw.

They speak by the connections that brokers use among themselves (kafkapy/inter_broker/peers.py), in the
highest version that both know. What was sent and not answered is sent again by another connection, while
the first request may still be on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkapy.inter_broker.peers import Peer, PeerAddress, PeerError, TcpPeers
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import Record, build_batch, decode_records
from kafkapy.protocol.special_timestamps import LATEST
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import ZERO_UUID
from kafkapy.virtual.determinism import START_MS
from kafkapy.virtual.world import World
from tests.promises.history import (
    Acked,
    CommitAcked,
    CommitFetched,
    CommitSent,
    EndOffset,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    checksum_of,
)
from tests.simulation.witness import Witness

TIMEOUT: Final = 1.5
"""Seconds after which a request is given up, and sent again."""

BACKOFF: Final = 0.1
"""Seconds before another try: what Kafka's clients begin with (`retry.backoff.ms`)."""

PAUSE: Final = 0.4
"""The longest that a producer waits between two batches."""


JUDGED_AFTER: Final = 60.0
"""How long after the last fault a record that cannot be read is lost, in seconds."""

REFUSALS_OF_PRODUCERS: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
    }
)
"""The latest leader never tells a producer this for its first batch that is not acknowledged."""


class Client:
    """A client that knows the brokers' addresses and finds the leaders."""

    def __init__(self, world: World, name: str, addresses: Mapping[int, PeerAddress]) -> None:
        self.world = world
        self.name = name
        self._addresses = addresses
        self._peers: dict[int, Peer] = {}
        self._leaders: dict[Partition, tuple[int, int]] = {}
        """The leader and its epoch, as the last metadata had them."""
        self._epochs: dict[Partition, int] = {}
        """The newest leader epochs: metadata with an older one are ignored, as Kafka's clients do."""
        self.topic_ids: dict[str, bytes] = {}
        self.dead_topics: set[bytes] = set()
        """The ids of deleted topics: metadata that have them are older."""

    async def ask(self, broker: int, request: Any) -> Any:
        """Ask a broker.

        Raises:
            PeerError: there is no answer.
        """
        peer = self._peers.get(broker)
        if peer is None:
            peer = self._peers[broker] = TcpPeers(0).connect(self._addresses[broker], self.name)
        try:
            return await peer.ask(request, seconds=TIMEOUT)
        except PeerError:
            peer.close()
            if self._peers.get(broker) is peer:
                del self._peers[broker]
            raise

    def any_broker(self) -> int:
        """One of the brokers."""
        return self.world.chance.choice(sorted(self._addresses))

    async def leader_of(self, partition: Partition) -> int:
        """The broker that leads a partition, as far as a broker knows."""
        while partition not in self._leaders:
            await self.look_up(partition)
            if partition not in self._leaders:
                await asyncio.sleep(BACKOFF)
        return self._leaders[partition][0]

    def leader_epoch_of(self, partition: Partition) -> int:
        """The leader epoch of the last metadata."""
        return self._leaders[partition][1]

    def id_of(self, topic: str) -> bytes:
        """The id of a topic whose leader was found."""
        return self.topic_ids.get(topic, ZERO_UUID)

    def forget_topic(self, topic: str) -> None:
        """Take the next metadata of a topic, even if they are of another topic of this name."""
        self.topic_ids.pop(topic, None)
        for key in [key for key in self._epochs if key[0] == topic]:
            del self._epochs[key]
            self._leaders.pop(key, None)

    def forget_leader(self, partition: Partition) -> None:
        """Look the leader up again."""
        self._leaders.pop(partition, None)

    async def look_up(self, partition: Partition) -> None:
        """Ask a broker about the topic of a partition."""
        wanted = MetadataRequest(
            topics=[MetadataRequestTopic(name=partition[0])], allow_auto_topic_creation=False
        )
        try:
            answer = await self.ask(self.any_broker(), wanted)
        except PeerError:
            return
        for topic in answer.topics:
            if topic.topic_id in self.dead_topics:
                continue
            for each in topic.partitions:
                key = topic.name, each.partition_index
                if each.leader_epoch < self._epochs.get(key, 0):
                    continue
                if each.leader_id in self._addresses and not each.error_code:
                    self.topic_ids[topic.name] = topic.topic_id
                    self._leaders[key] = each.leader_id, each.leader_epoch
                    self._epochs[key] = each.leader_epoch


async def create_topic(
    client: Client, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> None:
    """Create a topic, whatever it takes."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replicas,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        timeout_ms=5000,
    )
    while True:
        try:
            answer = await client.ask(client.any_broker(), request)
        except PeerError:
            pass
        else:
            if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
        await asyncio.sleep(BACKOFF)


class Batch(NamedTuple):
    """Records of a producer, to be sent until they are acknowledged."""

    partition: Partition
    first: int
    """The number of the first record."""
    size: int
    """The number of records."""
    sequence: int
    data: bytes


class SimulatedProducer(Client):
    """An idempotent producer with acks=all, one batch after another for each partition."""

    def __init__(
        self,
        world: World,
        name: str,
        addresses: Mapping[int, PeerAddress],
        witness: Witness,
        partitions: list[Partition],
    ) -> None:
        super().__init__(world, name, addresses)
        self.acked = 0
        self._witness = witness
        self._partitions = partitions
        self._number = 0
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[Partition, int] = {}

    async def run(self, until: float) -> None:
        """Send batches until some time, each until it is acknowledged."""
        await self._begin()
        while self.world.now < until:
            await self._send(self.new_batch(self.world.chance.choice(self._partitions)))
            if self.world.chance.random() < 0.5:
                await asyncio.sleep(self.world.chance.random() * PAUSE)

    async def _begin(self) -> None:
        while self._producer_id < 0:
            try:
                answer = await self.ask(
                    self.any_broker(), InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
                )
            except PeerError:
                pass
            else:
                if not answer.error_code:
                    self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
                    return
            await asyncio.sleep(BACKOFF)

    def new_batch(self, partition: Partition) -> Batch:
        """The next batch for a partition."""
        chance = self.world.chance
        count = chance.choice((1, 1, 2, 5))
        first, self._number = self._number, self._number + count
        records = []
        for number in range(first, first + count):
            key, value = f"{self.name}:{number}".encode(), chance.randbytes(int(600 ** chance.random()))
            records.append(Record(-1, START_MS + int(self.world.now * 1000), key, value))
            self._witness.see(Sent(self.name, number, partition, checksum_of(key, value)))
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        data = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        return Batch(partition, first, count, sequence, bytes(data))

    def produce_request(self, batch: Batch) -> ProduceRequest:
        """The request that sends a batch."""
        topic, index = batch.partition
        data = PartitionProduceData(index=index, records=batch.data)
        return ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, topic_id=self.id_of(topic), partition_data=[data])],
        )

    def acknowledged(self, batch: Batch, offset: int) -> None:
        """A batch is written at `offset`."""
        self.world.note(self.name, "acknowledged", *batch.partition, batch.first, offset)
        for at in range(batch.size):
            self._witness.see(Acked(self.name, batch.first + at, offset + at))
        self.acked += batch.size

    def require_retriable(self, batch: Batch, code: int, *, by_leader: bool) -> None:
        """Fail if the first unacknowledged batch gets an error that only a loss explains.

        Only the latest leader has all that was acknowledged. A former one that is cut off has less, so the
        next batch is out of order there, as with Apache Kafka: a Produce request has no leader epoch. Batches
        are sent again until they are acknowledged, so the latest leader is asked in any case.
        """
        may_lack_batches = not by_leader and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if code in REFUSALS_OF_PRODUCERS and not may_lack_batches:
            name = ErrorCode(code).name
            self.world.failed(f"{self.name} was told {name} for {batch.partition}, sequence {batch.sequence}")

    async def _send(self, batch: Batch) -> None:
        while True:
            leader = await self.leader_of(batch.partition)
            by_leader = self._witness.is_led_by(leader, batch.partition)
            try:
                answer = await self.ask(leader, self.produce_request(batch))
            except PeerError:
                self.forget_leader(batch.partition)
                await asyncio.sleep(BACKOFF)
                continue
            told = answer.responses[0].partition_responses[0]
            if told.error_code == ErrorCode.NONE:
                self.acknowledged(batch, told.base_offset)
                return
            if told.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return
            self.require_retriable(batch, told.error_code, by_leader=by_leader)
            self.forget_leader(batch.partition)
            await asyncio.sleep(BACKOFF)


class SimulatedReader(Client):
    """Reads a partition on and on, and its end."""

    def __init__(
        self,
        world: World,
        name: str,
        addresses: Mapping[int, PeerAddress],
        witness: Witness,
        partition: Partition,
    ) -> None:
        super().__init__(world, name, addresses)
        self.position = 0
        self._witness = witness
        self._partition = partition
        witness.see(ReadFrom(name, partition, self.position, dense=True))

    async def run(self) -> None:
        """Read for ever."""
        while True:
            if self.world.chance.random() < 0.2:
                await self.end()
            await self.read_some()
            await asyncio.sleep(self.world.chance.random() * 0.05)

    async def read_all(self) -> None:
        """Read to the end as of now, as the leader tells it, and everything that was acknowledged."""
        end = await self.end()
        while self.position < end:
            await self.read_some()
        await self.read_known(self.world.now + JUDGED_AFTER)

    async def read_known(self, deadline: float) -> None:
        """Read everything that was acknowledged, until `deadline` at the latest, and end this pass.

        The leader may be away, or one that does not know yet that another one has followed it.
        """
        while self.position < self._witness.known_end(self._partition) and self.world.now < deadline:
            await self.read_some()
            await asyncio.sleep(BACKOFF)
        self._witness.see(ReadTo(self.name, self._partition, self.position))

    async def end(self) -> int:
        """The high watermark, by ListOffsets."""
        topic, index = self._partition
        while True:
            leader = await self.leader_of(self._partition)
            self._witness.see_end_asked(self.name, self._partition)
            wanted = ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=self.leader_epoch_of(self._partition),
                timestamp=LATEST,
            )
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])], timeout_ms=1000
            )
            try:
                told = (await self.ask(leader, request)).topics[0].partitions[0]
            except PeerError:
                self.forget_leader(self._partition)
                await asyncio.sleep(BACKOFF)
                continue
            if not told.error_code:
                offset: int = told.offset
                self._witness.see(EndOffset(self._partition, offset, self.name))
                return offset
            self.forget_leader(self._partition)
            await asyncio.sleep(BACKOFF)

    async def read_some(self) -> None:
        """Fetch once."""
        topic, index = self._partition
        leader = await self.leader_of(self._partition)
        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=self.leader_epoch_of(self._partition),
            fetch_offset=self.position,
            partition_max_bytes=self.world.chance.choice((1, 2000, 1 << 20)),
        )
        request = FetchRequest(
            max_wait_ms=self.world.chance.choice((0, 100, 500)),
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=topic, topic_id=self.id_of(topic), partitions=[wanted])],
        )
        try:
            answer = await self.ask(leader, request)
        except PeerError:
            self.forget_leader(self._partition)
            await asyncio.sleep(BACKOFF)
            return
        found = [each for topics in answer.responses for each in topics.partitions]
        told = found[0] if found else None
        if told is None or answer.error_code or told.error_code:
            if told is not None and told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.world.failed(f"{self.name} reads {self._partition} at {self.position}: out of range")
            self.forget_leader(self._partition)
            await asyncio.sleep(BACKOFF)
            return
        self._note(bytes(told.records or b""))

    def _note(self, data: bytes) -> None:
        records = []
        position = 0
        while position + 12 <= len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            if position + size > len(data):
                break
            records += [each for each in decode_records(data, position) if each.offset >= self.position]
            position += size
        for record in records:
            key, value = bytes(record.key or b""), bytes(record.value or b"")
            producer, _, number = key.decode().rpartition(":")
            checksum = checksum_of(key, value)
            read = Read(self.name, self._partition, record.offset, producer, int(number), checksum)
            self._witness.see(read)
            self.position = record.offset + 1


class GroupClient(Client):
    """A client that finds the coordinator of its group."""

    def __init__(self, world: World, name: str, addresses: Mapping[int, PeerAddress], group: str) -> None:
        super().__init__(world, name, addresses)
        self.group = group
        self.coordinator: int | None = None
        """The coordinator; None if it is to be looked up."""

    async def find(self) -> int:
        """The broker that coordinates the group, as far as a broker knows."""
        while self.coordinator is None:
            try:
                answer = await self.ask(
                    self.any_broker(), FindCoordinatorRequest(coordinator_keys=[self.group])
                )
            except PeerError:
                pass
            else:
                found = answer.coordinators[0]
                if not found.error_code and found.node_id in self._addresses:
                    self.coordinator = found.node_id
                    break
            await asyncio.sleep(BACKOFF)
        return self.coordinator


class SimulatedCommitter(GroupClient):
    """Commits offsets of a group that nobody joins, and fetches them."""

    def __init__(
        self, world: World, name: str, addresses: Mapping[int, PeerAddress], witness: Witness, at: Partition
    ) -> None:
        super().__init__(world, name, addresses, name)
        self.commits = 0
        self._witness = witness
        self._partition = at

    async def run(self, reader: SimulatedReader) -> None:
        """Commit the positions of a reader for ever."""
        committed = -1
        while True:
            await asyncio.sleep(self.world.chance.random() * 0.8)
            if reader.position > committed:
                committed = reader.position
                await self.commit(committed)
            if self.world.chance.random() < 0.3:
                await self.fetch()

    async def commit(self, offset: int) -> None:
        """Commit once; without an answer it may have taken place or not."""
        topic, index = self._partition
        coordinator = await self.find()
        await self.leader_of(self._partition)  # for the id of the topic
        self._witness.see(CommitSent(self.name, self._partition, offset, may_be_late=True))
        one = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.name,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=self.id_of(topic), partitions=[one])],
        )
        try:
            answer = await self.ask(coordinator, request)
        except PeerError:
            self.coordinator = None
            return
        if answer.topics[0].partitions[0].error_code:
            self.coordinator = None
        else:
            self.commits += 1
            self.world.note(self.name, "committed", offset)
            self._witness.see(CommitAcked(self.name, self._partition, offset))

    async def fetch(self) -> None:
        """Ask for the committed offset until the latest coordinator answers.

        One that was paused, and does not know yet that another has taken over, may tell an earlier offset, as
        in Apache Kafka: an OffsetFetch has no epoch of the coordinator.
        """
        topic, index = self._partition
        while True:
            coordinator = await self.find()
            await self.leader_of(self._partition)
            by_leader = self._witness.is_led_by(coordinator, (GROUP_METADATA_TOPIC, 0))
            wanted = OffsetFetchRequestTopics(
                name=topic, topic_id=self.id_of(topic), partition_indexes=[index]
            )
            group = OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])
            try:
                answer = await self.ask(coordinator, OffsetFetchRequest(groups=[group]))
            except PeerError:
                self.coordinator = None
                continue
            told = answer.groups[0]
            if by_leader and not told.error_code and not told.topics[0].partitions[0].error_code:
                offset = told.topics[0].partitions[0].committed_offset
                self._witness.see(CommitFetched(self.name, self._partition, offset))
                return
            self.coordinator = None
            await asyncio.sleep(BACKOFF)
