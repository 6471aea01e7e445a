"""A cluster in one process.

Replica managers over directories are joined by connections in memory.

Each node is the replication half of a broker, with the real handlers of Fetch, Produce, ListOffsets,
OffsetForLeaderEpoch and DeleteRecords. Requests between nodes are encoded and decoded in the versions that
the nodes know. The controller is a table in memory, which the test commands.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kafkapy import handlers
from kafkapy.configs.config import BrokerConfig
from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.fetch.sessions import FetchSessionCache
from kafkapy.handlers.context import RequestContext
from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.timers import Timers
from kafkapy.loop.turns import Turns
from kafkapy.loop.validation import Validation
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import NO_LEADER, Broker, MetadataImage, PartitionState, Topic
from kafkapy.metadata.znodes import Endpoint
from kafkapy.network.answers import Pipelined
from kafkapy.protocol import codec
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import (
    RequestHeader,
    decode_response,
    encode_request,
    parse_request_header,
    response_parts,
)
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.replicas.cluster_replication import ClusterReplication, ReplicationSettings
from kafkapy.replicas.controller_requests import EPOCH_DURING_DELETE
from kafkapy.replicas.fetcher import FetchSettings
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.refused_batches import RefusedBatches
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.write_gate import WriteGate
from kafkapy.storage.disk.log_directory import Durability
from kafkapy.storage.log.validate import AppendOrigin, prepare_batches
from tests.replicas.held_files import HeldFiles, until
from tests.storage.log_harness import Logs, batch, read_bytes

TP = TopicPartition("events", 0)


def id_of(topic: str) -> bytes:
    """The id of a topic."""
    return topic.encode()[:16].ljust(16, b".")


FETCH = FetchSettings(wait_seconds=0.05, backoff_seconds=0.02, timeout_seconds=5.0)
LAG_SECONDS = 30.0
LISTENER = "PLAINTEXT"


class Wire:
    """Which node reaches which."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.cut: set[frozenset[int]] = set()
        """The pairs of nodes that do not reach each other."""
        self.versions: dict[int, int] = {}
        """The highest version by API key, if that is not the highest of all."""
        self.refused = 0
        """How often a node did not reach another one."""
        self.asked: list[tuple[int, int, Any]] = []
        """The requests: from, to and what."""
        self.spoil: Callable[[int, Any], None] | None = None
        """Called with the asked node and its answer, which it may change."""
        self.delay: Callable[[Any], Awaitable[None]] | None = None
        """Awaited with each answer before it comes."""

    def version(self, api_key: int) -> int:
        return self.versions.get(api_key, request_class(api_key).VERSIONS[1])

    def reaches(self, one: int, other: int) -> bool:
        return other in self.nodes and frozenset((one, other)) not in self.cut


class WirePeer:
    """A connection in memory."""

    def __init__(self, wire: Wire, source: int, address: PeerAddress) -> None:
        self._wire = wire
        self._source = source
        self.address = address
        self.closed = False

    async def version(self, api_key: int) -> int:
        self._check()
        return self._wire.version(api_key)

    async def ask(self, request: Any, *, seconds: float) -> Any:
        self._check()
        version = self._wire.version(request.KEY)
        target = self._wire.nodes[self.address.id]
        self._wire.asked.append((self._source, self.address.id, request))
        frame = memoryview(bytearray(encode_request(request, version)))[4:]
        _, position = parse_request_header(frame)
        received, _ = codec.decode_from(request_class(request.KEY), frame, position, version)
        response = await target.answer(received, version)
        self._check()
        parts = response_parts(request.KEY, version, 0, response)
        data = b"".join(part if isinstance(part, bytes | memoryview) else _read(part) for part in parts)
        _, answer = decode_response(request.KEY, version, memoryview(bytearray(data))[4:])
        if self._wire.spoil is not None:
            self._wire.spoil(self.address.id, answer)
        if self._wire.delay is not None:
            await self._wire.delay(answer)
        return answer

    def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.closed or not self._wire.reaches(self._source, self.address.id):
            self._wire.refused += 1
            raise PeerError(f"broker {self.address.id} cannot be reached")


def _read(part: Any) -> bytes:
    try:
        data: bytes = part.read()
    finally:
        part.release()
    return data


@dataclass
class WirePeers:
    wire: Wire
    node_id: int

    def connect(self, address: PeerAddress, purpose: str) -> WirePeer:
        return WirePeer(self.wire, self.node_id, address)


class RigSettings(ReplicationSettings):
    """The settings that the test has set."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def lag_seconds(self) -> float:
        return self._rig.lag_seconds

    def fetchers(self) -> int:
        return self._rig.fetchers

    def fetch(self) -> FetchSettings:
        return self._rig.fetch


class Node:
    """One broker of the cluster."""

    quotas = authorizer = None

    def __init__(self, rig: Rig, node_id: int, root: Path, durability: Durability) -> None:
        self.rig, self.node_id = rig, node_id
        self.files = HeldFiles()
        self.storage = Logs(root / f"node-{node_id}", durability=durability, files=self.files)
        self.durable = durability == "fsync"
        self.epoch = 0
        self.config = BrokerConfig({})
        self._running = False
        self.start()

    def topic_log(self, topic: str) -> LocalTopicLog:
        """The partitions of an internal topic on this broker, which must exist."""
        rig = self.rig

        class Cache:
            image = property(lambda self: rig.image)

        return LocalTopicLog(
            topic,
            metadata=cast("Any", Cache()),
            replicas=self.replicas,
            blocking=self.blocking,
            provide=self.cold_reads.provide,
            create=cast("Any", None),
        )

    def start(self) -> None:
        """Start over what the directories have."""
        rig, loop = self.rig, asyncio.get_running_loop()
        self.epoch = rig.next_epoch()
        self.clock = self.storage.clock
        self.logs = self.storage.manager
        self.turns, self.timers = Turns(loop), Timers(loop)
        self.waiters = Waiters(loop, self.timers)
        self.group_commit = GroupCommit()
        self._pools = [ThreadPoolExecutor(2) for _ in range(3)]
        self.cold_reads = ColdReads(loop, self._pools[1], self._pools[1])
        self.validation = Validation(self._pools[2], 2)
        self.conversions = asyncio.Semaphore(2)
        self.refused_batches = RefusedBatches(rig.now)
        self.fetch_sessions = FetchSessionCache(
            100, now_ms=self.clock.now_ms, wake=self.waiters.wake, rng=random.Random(self.node_id)
        )
        self.log_mover = LogMover(self.logs, self.blocking, 1, lambda: 2**63 - 1)
        self.log_starts = LogStartSaves(self.logs, self.blocking)
        self.write_gate = WriteGate()
        self.replicas = ReplicaManager(
            self.logs,
            self.group_commit,
            blocking=self.blocking,
            mover=self.log_mover,
            waiters=self.waiters,
            node_id=self.node_id,
            defaults={},
            sync=self.durable,
        )
        self.replication = ClusterReplication(
            self.replicas,
            RigSettings(rig),
            node_id=self.node_id,
            image=lambda: rig.image,
            read_topics=rig.read_topics,
            read_states=rig.read_states,
            read_controller_epoch=rig.read_controller_epoch,
            peers=WirePeers(rig.wire, self.node_id),
            address=rig.address,
            ask_controller=rig.controller.ask,
            now_ms=self.clock.now_ms,
            now=rig.now,
        )
        self.requests = self.replication.requests
        self.isr_changes, self.fetchers = self.replication.isr_changes, self.replication.fetchers
        self.leaderships: list[tuple[str, int, bool, int]] = []
        self.replicas.on_leadership(lambda *told: self.leaderships.append(told))
        self.replicas.apply(MetadataImage(), rig.image)
        self.replication.start()
        rig.wire.nodes[self.node_id] = self
        self._running = True

    @property
    def metadata(self) -> SimpleNamespace:
        """What the node knows of the cluster."""
        return SimpleNamespace(image=self.rig.image)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.rig.image.topic_name(topic_id) or self.requests.new_topics.name(topic_id)

    async def blocking(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pools[0], lambda: call(*args, **kwargs))

    async def stop(self, *, clean: bool = True) -> None:
        """Stop in order, or as SIGKILL does."""
        if not self._running:
            return
        self._running = False
        self.rig.wire.nodes.pop(self.node_id, None)
        self.files.let_go()
        await self.replication.stop()
        if clean:
            await self.group_commit.drain()
            self.replicas.close()
            self.storage.stop()
        else:
            self.replicas.close()
            await self.group_commit.drain()
            self.storage.crash()
        self.group_commit.close()
        self.timers.close()
        for pool in self._pools:
            pool.shutdown()

    async def restart(self, *, clean: bool = True, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Stop and start; the controller has to tell the roles again."""
        await self.stop(clean=clean)
        meanwhile()
        self.storage.manager = self.storage.new_manager()
        self.start()

    # --- requests -------------------------------------------------------------------------------------------

    async def answer(self, request: Any, version: int) -> Any:
        """Handle a request as the dispatcher does."""
        self.metadata.image = self.rig.image
        connection = SimpleNamespace(
            keep_frame=lambda: None,
            charge=lambda values: True,
            close=lambda why: None,
            validation_paid_at=0.0,
            peer_host="test",
            local_host="here",
            listener=SimpleNamespace(name=LISTENER),
        )
        header = RequestHeader(request.KEY, version, 0, "test")
        context = RequestContext(self, connection, request.KEY, version, 0, "test", header)  # type: ignore[arg-type]
        response = handlers.endpoint(request.KEY).handle(context, request)
        if hasattr(response, "send") and hasattr(response, "gi_frame"):
            response = await self.turns.finish(response)
        while isinstance(response, (Awaitable, Pipelined)):
            response = await (_pipelined(response) if isinstance(response, Pipelined) else response)
        return response

    async def produce(
        self,
        *values: bytes,
        acks: int = -1,
        key: TopicPartition = TP,
        timeout_ms: int = 5000,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
    ) -> PartitionProduceResponse:
        """Produce a batch as a client does; `producer` is its id and epoch."""
        records = batch(*values, producer_id=producer[0], epoch=producer[1], sequence=sequence)
        data = PartitionProduceData(index=key.partition, records=memoryview(records))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=key.topic, partition_data=[data])],
        )
        response = await self.answer(request, 10)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def delete_records(self, offset: int, *, timeout_ms: int = 5000) -> Any:
        """Delete the records of TP below an offset."""
        wanted = DeleteRecordsPartition(partition_index=TP.partition, offset=offset)
        topic = DeleteRecordsTopic(name=TP.topic, partitions=[wanted])
        response = await self.answer(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms), 2)
        return response.topics[0].partitions[0]

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def partition(self) -> Partition:
        """TP on this node."""
        return self.replicas.partition(*TP)

    @property
    def leader(self) -> Leader:
        """The leader of TP, which is on this node."""
        role = self.partition.replication
        assert isinstance(role, Leader)
        return role

    @property
    def offsets(self) -> tuple[int, int, int]:
        """The log start offset, the high watermark and the log end offset of TP."""
        log = self.partition.log
        return log.log_start_offset, log.high_watermark, log.log_end_offset

    @property
    def content(self) -> bytes:
        """The batches of TP, as they are on disk."""
        return read_bytes(self.partition.log)

    def write(self, *values: bytes, key: TopicPartition = TP) -> int:
        """Append a batch to a partition that is led here, whatever its ISR.

        Returns the offset after it.
        """
        partition = self.replicas.partition(*key)
        prepared = prepare_batches(
            memoryview(batch(*values)),
            config=partition.log.config,
            origin=AppendOrigin.CLIENT,
            now_ms=self.clock.now_ms(),
        )
        info = partition.append(prepared, origin=AppendOrigin.CLIENT, now_ms=self.clock.now_ms(), acks=1)
        return info.last_offset + 1


async def _pipelined(answer: Pipelined) -> Any:
    watch = answer.answer
    if isinstance(watch, Awaitable):
        return await watch
    done = asyncio.get_running_loop().create_future()
    watch.add_done_callback(lambda each: done.set_result(each.result()))
    watch.look()
    return await done


class Controller:
    """The states of partitions, and what becomes of proposals."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.epoch = 1
        self.states: dict[TopicPartition, PartitionState] = {}
        self.refuse: ErrorCode = ErrorCode.NONE
        """The error of every proposal."""
        self.unreachable = False
        self.held: asyncio.Event | None = None
        """If set: proposals are answered after the event."""
        self.asked: list[AlterPartitionRequest] = []

    async def ask(self, request: Any) -> Any:
        """What brokers use to ask the controller."""
        assert isinstance(request, AlterPartitionRequest)
        self.asked.append(request)
        if self.held is not None:
            await self.held.wait()
        if self.unreachable:
            raise PeerError("there is no controller")
        response = AlterPartitionResponse()
        for topic in request.topics:
            name = topic.topic_name
            answers = [
                self._decide(TopicPartition(name, each.partition_index), each) for each in topic.partitions
            ]
            response.topics.append(
                AlterPartitionResponseTopicData(topic_name=name, topic_id=topic.topic_id, partitions=answers)
            )
        return response

    def _decide(
        self, key: TopicPartition, wanted: AlterPartitionRequestPartitionData
    ) -> AlterPartitionResponsePartitionData:
        state = self.states[key]
        code = self.refuse
        if wanted.leader_epoch != state.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.partition_epoch != state.version:
            code = ErrorCode.INVALID_UPDATE_VERSION
        if code:
            return AlterPartitionResponsePartitionData(partition_index=key.partition, error_code=code)
        isr = tuple(each.broker_id for each in wanted.new_isr_with_epochs)
        state = self.states[key] = state._replace(isr=isr, version=state.version + 1)
        return AlterPartitionResponsePartitionData(
            partition_index=key.partition,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(isr),
            partition_epoch=state.version,
        )

    def create(
        self, replicas: Iterable[int], *, key: TopicPartition = TP, configs: Mapping[str, str]
    ) -> None:
        """Create a topic with one partition, without telling the brokers."""
        assigned = tuple(replicas)
        self.states[key] = PartitionState(NO_LEADER, -1, assigned, assigned)
        topic = Topic(key.topic, id_of(key.topic), (self.states[key],) * (key.partition + 1), configs)
        self._rig.change(self._rig.image.with_topics([topic]))

    async def elect(
        self,
        leader: int,
        isr: Iterable[int] | None = None,
        *,
        key: TopicPartition = TP,
        tell: Iterable[int] | None = None,
    ) -> None:
        """Have a broker lead in a new leader epoch, and tell that to these nodes (all that run)."""
        state = self.states[key]
        self.states[key] = state._replace(
            leader=leader,
            leader_epoch=state.leader_epoch + 1,
            isr=state.isr if isr is None else tuple(isr),
            version=state.version + 1,
        )
        await self.tell(tell, key=key)

    async def tell(
        self, nodes: Iterable[int] | None = None, *, key: TopicPartition = TP, is_new: bool = False
    ) -> list[Any]:
        """Send the state of a partition to nodes."""
        state = self.states[key]
        targets = (
            [node for node in state.replicas if node in self._rig.wire.nodes] if nodes is None else nodes
        )
        request = self.request([key], is_new=is_new)
        return [await self._rig.wire.nodes[node].requests.leader_and_isr(request) for node in targets]

    def request(self, keys: Iterable[TopicPartition], *, is_new: bool = False) -> LeaderAndIsrRequest:
        """The request with the states of partitions."""
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for key in keys:
            state = self.states[key]
            topic = topics.setdefault(
                key.topic, LeaderAndIsrTopicState(topic_name=key.topic, topic_id=id_of(key.topic))
            )
            topic.partition_states.append(
                LeaderAndIsrPartitionState(
                    partition_index=key.partition,
                    controller_epoch=self.epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=state.version,
                    replicas=list(state.replicas),
                    is_new=is_new,
                )
            )
        return LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=self.epoch,
            topic_states=list(topics.values()),
            live_leaders=[LeaderAndIsrLiveLeader(broker_id=node) for node in self._rig.wire.nodes],
        )

    def stop_request(self, *, delete: bool, leader_epoch: int = EPOCH_DURING_DELETE) -> StopReplicaRequest:
        """The request to stop or delete TP, whose topic is marked for deletion if that is meant."""
        if delete and leader_epoch == EPOCH_DURING_DELETE:
            self._rig.marked.add(TP.topic)
        state = StopReplicaPartitionState(
            partition_index=TP.partition, leader_epoch=leader_epoch, delete_partition=delete
        )
        topic = StopReplicaTopicState(topic_name=TP.topic, partition_states=[state])
        return StopReplicaRequest(controller_epoch=self.epoch, topic_states=[topic])


class Rig:
    """The cluster."""

    def __init__(self, root: Path, count: int = 2, *, durability: Durability = "os") -> None:
        self._loop = asyncio.get_running_loop()
        self._epochs = 100
        self.ahead = 0.0
        """Seconds by which the test has moved the clock of lags."""
        self.lag_seconds = LAG_SECONDS
        self.fetch = FETCH
        self.fetchers = 1
        self.port = 9092
        self.wire = Wire()
        self.image = MetadataImage(cluster_id="a-cluster")
        self.marked: set[str] = set()
        """The topics that are marked for deletion."""
        self.unseen: dict[str, Topic] = {}
        """Topics that the metadata tree has, and the image does not."""
        self.states_read: list[TopicPartition] = []
        """The partitions whose states brokers have read from the metadata tree."""
        self.controller = Controller(self)
        self._all = {number: Node(self, number, root, durability) for number in range(1, count + 1)}
        self.register(self._all)

    def __getitem__(self, node: int) -> Node:
        return self._all[node]

    def now(self) -> float:
        return self._loop.time() + self.ahead

    def next_epoch(self) -> int:
        self._epochs += 1
        return self._epochs

    def register(self, nodes: Iterable[int]) -> None:
        """Let the image have these brokers."""
        brokers = [
            Broker(
                number,
                None,
                {LISTENER: Endpoint(LISTENER, f"host-{number}", number, "PLAINTEXT")},
                self._all[number].epoch,
            )
            for number in nodes
        ]
        self.change(self.image.with_brokers(brokers, 0))

    def change(self, image: MetadataImage) -> None:
        """Publish an image."""
        before, self.image = self.image, image
        for node in self.wire.nodes.values():
            node.replicas.apply(before, image)
            node.requests.new_topics.image_changed(before, image)

    def registered_epoch(self, broker: int) -> int | None:
        found = self.image.brokers.get(broker)
        return None if found is None else found.epoch

    def address(self, broker: int) -> PeerAddress | None:
        return PeerAddress(broker, "memory", self.port) if broker in self.image.brokers else None

    async def read_topics(self, names: Sequence[str]) -> dict[str, Topic]:
        there = {**self.image.topics, **self.unseen}
        return {name: there[name] for name in names if name in there and name not in self.marked}

    async def read_states(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        self.states_read.extend(keys)
        return {key: self.controller.states[key] for key in keys if key in self.controller.states}

    async def read_controller_epoch(self) -> int:
        return self.controller.epoch

    async def lead(self, leader: int = 1, configs: Mapping[str, str] | None = None) -> Node:
        """Create TP on all nodes, led by one of them."""
        self.controller.create(self._all, configs=configs or {})
        await self.controller.elect(leader)
        return self[leader]

    async def caught_up(self, *nodes: int) -> None:
        """Wait until these nodes have all of TP, and know that it is committed."""
        leader = self[self.controller.states[TP].leader]
        for node in nodes:
            await until(lambda node=node: self[node].offsets[1:] == leader.offsets[1:])  # type: ignore[misc]

    async def close(self) -> None:
        for node in self._all.values():
            await node.stop(clean=False)
