"""The numbers of a broker at one moment, which a scrape shows.

They are taken on the event loop, which owns the state, in turns with requests. From then on a thread has them
for itself: metadata images do not change, and all else is copied.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from kafkapy.groups.group import Group, GroupType
from kafkapy.groups.offsets.committed_offset import decode_offset
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage
from kafkapy.metrics import client_metrics, share_metrics
from kafkapy.metrics.client_metrics import TelemetryFacts
from kafkapy.metrics.record_ages import RecordAges
from kafkapy.metrics.served_broker import ServedBroker
from kafkapy.metrics.share_metrics import LONGEST_GROUP_ID, ShareFacts
from kafkapy.network.request_metrics import Durations
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponseTopic
from kafkapy.protocol.types import TopicPartition
from kafkapy.quotas import ClientQuotaType
from kafkapy.quotas.rate_quotas import ShownQuota
from kafkapy.replicas.follower import Follower
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.topic_traffic import TopicTraffic

MOST_OFFSETS: Final = 20_000
"""The most committed offsets that are shown. Clients can commit any number of them for any group."""


class PartitionFacts(NamedTuple):
    """One partition on this broker."""

    topic: str
    partition: int
    leads: bool
    size: int
    segments: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    replicas: int
    """The number of replicas, as the leader knows it; 0 elsewhere."""
    in_sync: int
    min_in_sync: int


class GroupFacts(NamedTuple):
    """One group that this broker coordinates."""

    group_id: str
    type: GroupType
    state: str
    members: int


@dataclass(slots=True)
class OffsetFacts:
    """One committed offset."""

    group_id: str
    partition: TopicPartition
    offset: int
    end: int | None
    """The high watermark; None if this broker does not know it."""
    written_ms: int | None = None
    """When the first record after it was written; None if there is none, or that is not known."""


class ClientBytes(NamedTuple):
    """The traffic of one client."""

    principal: str
    client_id: str
    produced: int
    fetched: int
    throttles: int
    throttled_seconds: float


class ZooKeeperFacts(NamedTuple):
    """The session with ZooKeeper."""

    requests: int
    seconds: list[float]
    """A sample of how long requests took."""
    connects: int
    disconnects: int
    expires: int
    refusals: int


class ApiFacts(NamedTuple):
    """The requests of one API."""

    name: str
    requests: int
    versions: dict[int, int]
    errors: dict[str, int]
    durations: list[Durations]
    """A sample."""


@dataclass(slots=True)
class Snapshot:
    """The numbers of a broker."""

    node_id: int
    now_ms: int
    image: MetadataImage
    partitions: list[PartitionFacts] = field(default_factory=list)
    offline: int = 0
    """The replicas that are offline."""
    follower_lag: int = 0
    """The most records that a replica here is behind the high watermark of its leader."""
    fetch_rate: float = 0
    """The fetches a second of the fetcher that asks its leader the least often."""
    total: TopicTraffic = field(default_factory=TopicTraffic)
    topics: list[tuple[str, TopicTraffic]] = field(default_factory=list)
    apis: list[ApiFacts] = field(default_factory=list)
    groups: list[GroupFacts] = field(default_factory=list)
    offsets: list[OffsetFacts] = field(default_factory=list)
    offsets_left_out: int = 0
    committed: int = 0
    """The number of committed offsets."""
    transactions: Counter[str] = field(default_factory=Counter)
    connections: Counter[str] = field(default_factory=Counter)
    """By listener."""
    software: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """The connections by name and version of the client's software, and listener."""
    waiting: Counter[int] = field(default_factory=Counter)
    """The requests that wait for their answers, by API."""
    answers_waiting: int = 0
    """The answers that wait for those to earlier requests."""
    fetch_sessions: int = 0
    fetch_evictions: int = 0
    load_seconds: dict[str, list[float]] = field(default_factory=dict)
    """By type of MBean: a sample of how long its coordinator took to load partitions."""
    zookeeper: ZooKeeperFacts | None = None
    """None without ZooKeeper."""
    directories: list[tuple[str, bool]] = field(default_factory=list)
    """The log directories, each with whether it is offline."""
    free_bytes: list[int | None] = field(default_factory=list)
    """For each of them, what is free in its file system; None if it is offline."""
    flushes: int = 0
    flush_seconds: list[float] = field(default_factory=list)
    """A sample."""
    buffered_bytes: int = 0
    max_buffered: int = 0
    connections_in_turn: int = 0
    """The connections that wait for a turn."""
    elections: tuple[int, int] = 0, 0
    """All, and the unclean ones."""
    isr_shrinks: int = 0
    isr_expands: int = 0
    telemetry: TelemetryFacts | None = None
    shares: ShareFacts | None = None
    """None while there are no coordinators."""
    clean_seconds: float = 0
    """How long the last pass of the log cleaner took."""
    recopied: float = 0
    """The share of its bytes that were written again."""
    dirty_ratio: float = 0
    """That of the dirtiest log that was due."""
    cleaner_rest: float = 0
    """The seconds since the cleaner looked for logs to compact."""
    dead_cleaners: int = 0
    clients: list[ClientBytes] = field(default_factory=list)
    quotas: dict[ClientQuotaType, list[ShownQuota]] = field(default_factory=dict)
    """The clients with quotas."""
    uncleanable: list[tuple[str, int]] = field(default_factory=list)
    """The logs that cannot be compacted: the log directory and the bytes of each."""

    def add_share_group(
        self,
        group_id: str,
        topics: Iterable[DescribeShareGroupOffsetsResponseTopic],
        broker: ServedBroker,
    ) -> None:
        """Add the start offsets of a share group, as committed offsets are; -1 is none yet."""
        for topic in topics:
            for each in topic.partitions:
                if each.start_offset < 0 or each.error_code:
                    continue
                if len(self.offsets) >= MOST_OFFSETS:
                    self.offsets_left_out += 1
                    continue
                key = TopicPartition(topic.topic_name, each.partition_index)
                partition = broker.replicas.find(key)
                known = partition is not None and not partition.offline
                end = partition.log.high_watermark if partition is not None and known else None
                self.offsets.append(OffsetFacts(group_id, key, each.start_offset, end))


def take(broker: ServedBroker, ages: RecordAges) -> Steps[Snapshot]:
    """Take a snapshot, in steps."""
    found = Snapshot(broker.node_id, broker.clock.now_ms(), broker.metadata.image)
    yield from _partitions(broker, found)
    yield from _traffic(broker, found)
    yield from _network(broker, found)
    if broker.has_coordinators:
        yield from _groups(broker, found, ages)
        for metadata in broker.transactions.listed():
            yield
            found.transactions[metadata.state.label] += 1
        now = broker.clock.monotonic()
        found.shares = yield from share_metrics.take(broker.shares, broker.groups.shares.rebalances, now)
        found.load_seconds = {
            "group-coordinator-metrics": broker.groups.runtime.load_times.durations(now),
            "transaction-coordinator-metrics": broker.transactions.runtime.load_times.durations(now),
        }
    found.fetch_sessions, found.fetch_evictions = len(broker.fetch_sessions), broker.fetch_sessions.evictions
    if (rates := broker.replicas.fetch_rates) is not None:
        found.fetch_rate = rates.slowest(broker.server.loop.time())
    found.zookeeper = _zookeeper(broker)
    found.directories = [(each.path, each.error is not None) for each in broker.logs.directories]
    commit = broker.group_commit
    found.flushes, found.flush_seconds = commit.flushes, []
    if commit.times is not None:
        found.flush_seconds = commit.times.durations(broker.server.loop.time())
    if broker.quotas is not None:
        found.quotas = yield from broker.quotas.shown()
    if broker.telemetry is not None:
        found.telemetry = yield from client_metrics.take(broker.telemetry)
    cleaner = broker.log_cleaner
    found.clean_seconds, found.recopied = cleaner.facts.clean_seconds, cleaner.facts.recopied
    found.dirty_ratio = cleaner.facts.dirty_ratio
    found.cleaner_rest = time.monotonic() - cleaner.facts.looked_at
    found.dead_cleaners = cleaner.dead_workers
    found.uncleanable = [(log.log_directory.path, log.size) for log in cleaner.uncleanable]
    found.elections = broker.admin.elections
    changes = broker.replicas.isr_changes
    found.isr_shrinks, found.isr_expands = changes.shrinks, changes.expands
    return found


def _partitions(broker: ServedBroker, found: Snapshot) -> Steps[None]:
    for partition in tuple(broker.replicas):
        yield
        if partition.offline is ErrorCode.NONE:
            found.partitions.append(_facts(partition))
            if isinstance(role := partition.replication, Follower):
                behind = role.leader_high_watermark - partition.log.log_end_offset
                found.follower_lag = max(found.follower_lag, behind)
        elif partition.offline is ErrorCode.KAFKA_STORAGE_ERROR:
            found.offline += 1
    found.offline += broker.replicas.unavailable


def _facts(partition: Partition) -> PartitionFacts:
    log, role = partition.log, partition.replication
    replicas = in_sync = min_in_sync = 0
    if isinstance(role, Leader):
        replicas, in_sync, min_in_sync = len(role.replicas), len(role.isr), role.min_insync
    return PartitionFacts(
        *partition.topic_partition,
        role.leads,
        log.size,
        len(log.segments),
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.last_stable_offset,
        replicas,
        in_sync,
        min_in_sync,
    )


def _traffic(broker: ServedBroker, found: Snapshot) -> Steps[None]:
    traffic = broker.replicas.traffic
    if traffic is not None:
        found.total = traffic.total()
        for topic, numbers in tuple(traffic):
            yield
            copied = TopicTraffic()
            copied.add(numbers)
            found.topics.append((topic, copied))


def _network(broker: ServedBroker, found: Snapshot) -> Steps[None]:
    server = broker.server
    shared, now = server.shared, time.monotonic()
    found.connections.update({listener.name: 0 for listener in server.listening})
    for connection in tuple(server.connections):
        yield
        found.connections[connection.listener.name] += 1
        if shared.metrics is not None and connection.software is not None:
            name, version = shared.metrics.software.shown(connection.software)
            found.software[name, version, connection.listener.name] += 1
        waiting, ready = connection.unanswered()
        found.waiting.update(waiting)
        found.answers_waiting += ready
    found.buffered_bytes, found.max_buffered = shared.buffered_bytes, shared.max_buffered
    found.connections_in_turn = shared.rounds.waiting
    if shared.metrics is not None:
        for principal, client_id, traffic in shared.metrics.clients:
            yield
            found.clients.append(
                ClientBytes(
                    principal,
                    client_id,
                    traffic.produced,
                    traffic.fetched,
                    traffic.throttles,
                    traffic.throttled_seconds,
                )
            )
        for name, api in shared.metrics.apis():
            yield
            durations = api.sample.durations(now)
            errors = api.errors_by_name()
            found.apis.append(ApiFacts(name, api.requests, dict(api.versions), errors, durations))


def _zookeeper(broker: ServedBroker) -> ZooKeeperFacts | None:
    counts = broker.store.session_counts
    if counts is None:
        return None
    return ZooKeeperFacts(
        counts.requests,
        counts.times.durations(broker.server.loop.time()),
        counts.connects,
        counts.disconnects,
        counts.expires,
        counts.refusals,
    )


def _groups(broker: ServedBroker, found: Snapshot, ages: RecordAges) -> Steps[None]:
    groups, offsets = broker.groups.groups, broker.groups.offsets
    for group_id, group in tuple(groups.items()):
        yield
        committed = offsets.of_group(group_id)
        found.committed += len(committed)
        if len(group_id) > LONGEST_GROUP_ID:
            found.offsets_left_out += len(committed)
            continue
        found.groups.append(GroupFacts(group_id, group.type, group.state_name, _members(group)))
        room = MOST_OFFSETS - len(found.offsets)
        for key, encoded in tuple(islice(committed.items(), max(room, 0))):
            yield
            if (facts := _offset(broker, group_id, key, decode_offset(encoded).offset, ages)) is not None:
                found.offsets.append(facts)
        found.offsets_left_out += max(len(committed) - max(room, 0), 0)


def _members(group: Group) -> int:
    members = getattr(group, "members", ())
    return len(members)


def _offset(
    broker: ServedBroker, group_id: str, key: TopicPartition, offset: int, ages: RecordAges
) -> OffsetFacts | None:
    """A committed offset of a partition that exists, with the end of the log if that is here."""
    if broker.metadata.image.partition(*key) is None:
        return None
    partition = broker.replicas.find(key)
    if partition is None or partition.offline:
        return OffsetFacts(group_id, key, offset, None)
    facts = OffsetFacts(group_id, key, offset, partition.log.high_watermark)
    if offset < partition.log.high_watermark:
        facts.written_ms = ages.written_ms(partition, offset)
    return facts
