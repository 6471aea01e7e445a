"""The metrics of a snapshot, written on a page.

Any thread may do it: a snapshot is shared with nobody. The gauges of partitions are most of the page, so each
of their samples costs no more than a formatted line.
"""

from __future__ import annotations

import platform
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from kafkapy.configs.listeners import format_address
from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.consumer.group import ConsumerGroupState
from kafkapy.groups.group import GroupType
from kafkapy.groups.share.group import ShareGroupState
from kafkapy.groups.streams.group import StreamsGroupState
from kafkapy.metadata.image import NO_LEADER, MetadataImage
from kafkapy.metrics import client_metrics, share_metrics
from kafkapy.metrics.names import Spelling
from kafkapy.metrics.page import Page, Sample, labels
from kafkapy.metrics.quantiles import quantiles
from kafkapy.metrics.snapshot import (
    ApiFacts,
    ClientBytes,
    OffsetFacts,
    PartitionFacts,
    Snapshot,
    ZooKeeperFacts,
)
from kafkapy.network.request_metrics import FETCH_OF_CONSUMERS, FETCH_OF_FOLLOWERS, Durations
from kafkapy.protocol.types import ApiKey
from kafkapy.quotas import ClientQuotaType

RUNNING: Final = 3
"""Kafka's number of a running broker. Before and after, there are no metrics."""

_TRAFFIC: Final = {
    "MessagesInPerSec": "messages_in",
    "BytesInPerSec": "bytes_in",
    "BytesOutPerSec": "bytes_out",
    "BytesRejectedPerSec": "bytes_rejected",
    "TotalProduceRequestsPerSec": "produces",
    "TotalFetchRequestsPerSec": "fetches",
    "FailedProduceRequestsPerSec": "failed_produces",
    "FailedFetchRequestsPerSec": "failed_fetches",
    "ProduceMessageConversionsPerSec": "produce_conversions",
    "FetchMessageConversionsPerSec": "fetch_conversions",
    "TotalShareFetchRequestsPerSec": "share_fetches",
    "FailedShareFetchRequestsPerSec": "failed_share_fetches",
    "TotalShareAcknowledgementRequestsPerSec": "share_acknowledgements",
    "FailedShareAcknowledgementRequestsPerSec": "failed_share_acknowledgements",
}
_REPLICATION: Final = {
    "ReplicationBytesInPerSec": "replication_bytes_in",
    "ReplicationBytesOutPerSec": "replication_bytes_out",
}
"""Kafka has these for all topics together only."""

_PHASES: Final = {
    "RequestQueueTimeMs": "request_queue",
    "LocalTimeMs": "local",
    "RemoteTimeMs": "remote",
    "ResponseQueueTimeMs": "response_queue",
    "ResponseSendTimeMs": "response_send",
    "TotalTimeMs": "total",
}
_PURGATORIES: Final = {
    "Produce": (ApiKey.PRODUCE,),
    "Fetch": (ApiKey.FETCH,),
    "ShareFetch": (ApiKey.SHARE_FETCH,),
    "Rebalance": (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),
    "DeleteRecords": (ApiKey.DELETE_RECORDS,),
    "ElectLeader": (ApiKey.ELECT_LEADERS,),
    "topic": (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
}
"""Kafka's names for the places where requests wait, with the APIs that wait there."""

_FETCHERS: Final = 'clientId="Replica"'
"""The label that Kafka's fetchers of replicas have."""

_OF_CLIENTS: Final = {
    "kafkapy_client_produce_bytes_total": "produced",
    "kafkapy_client_fetch_bytes_total": "fetched",
    "kafkapy_client_throttles_total": "throttles",
    "kafkapy_client_throttle_seconds_total": "throttled_seconds",
}

_OF_QUOTAS: Final = {
    ClientQuotaType.PRODUCE: ("Produce.byte-rate", "Produce.throttle-time"),
    ClientQuotaType.FETCH: ("Fetch.byte-rate", "Fetch.throttle-time"),
    ClientQuotaType.REQUEST: ("Request.request-time", "Request.throttle-time"),
}

_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9]|^(?=[0-9]|$)")

_STATES: Final = {
    GroupType.CONSUMER: ("consumer-group-count", ConsumerGroupState),
    GroupType.SHARE: ("share-group-count", ShareGroupState),
    GroupType.STREAMS: ("streams-group-count", StreamsGroupState),
}


def write(page: Page, found: Snapshot) -> None:
    """Write all metrics of a snapshot."""
    _write_topics(page, found)
    _write_requests(page, found.apis)
    _write_replicas(page, found)
    _write_partitions(page, found.partitions)
    _write_logs(page, found)
    _write_cleaner(page, found)
    _write_clients(page, found)
    _write_quotas(page, found)
    _write_network(page, found)
    _write_loads(page, found)
    _write_groups(page, found)
    _write_offsets(page, found)
    if found.image.controller_id == found.node_id:
        _write_cluster(page, found.image)
    _write_controller(page, found)
    _write_exporter(page, found)
    if found.zookeeper is not None:
        _write_zookeeper(page, found.zookeeper)
    if found.shares is not None:
        share_metrics.write(page, found.shares)
    if found.telemetry is not None:
        client_metrics.write(page, found.telemetry)


def _write_topics(page: Page, found: Snapshot) -> None:
    traffic = [("", found.total), *((f'topic="{topic}"', numbers) for topic, numbers in found.topics)]
    for name, attribute in _TRAFFIC.items():
        value = attrgetter(attribute)
        page.add(f"BrokerTopicMetrics.{name}", [(label, value(numbers)) for label, numbers in traffic])
    for name, attribute in _REPLICATION.items():
        page.add_one(f"BrokerTopicMetrics.{name}", getattr(found.total, attribute))


def _write_requests(page: Page, apis: Sequence[ApiFacts]) -> None:
    apis = [*apis, *_all_fetches(apis)]
    page.add(
        "RequestMetrics.RequestsPerSec",
        [
            (f'request="{api.name}",version="{version}"', count)
            for api in apis
            for version, count in sorted(api.versions.items())
        ],
    )
    page.add(
        "RequestMetrics.ErrorsPerSec",
        [
            (f'request="{api.name}",error="{error}"', count)
            for api in apis
            for error, count in sorted(api.errors.items())
        ],
    )
    counts = [(f'request="{api.name}"', api.requests) for api in apis]
    for name, attribute in _PHASES.items():
        phase: Callable[[Durations], float] = attrgetter(attribute)
        of_phase = [
            (f'request="{api.name}",{label}', value)
            for api in apis
            for label, value in quantiles([phase(each) for each in api.durations])
        ]
        page.add_timer(f"RequestMetrics.{name}", counts, of_phase)


def _all_fetches(apis: Sequence[ApiFacts]) -> list[ApiFacts]:
    """The fetches of consumers and followers together, which Kafka shows besides."""
    fetches = [api for api in apis if api.name in (FETCH_OF_CONSUMERS, FETCH_OF_FOLLOWERS)]
    if not fetches:
        return []
    versions: Counter[int] = Counter()
    errors: Counter[str] = Counter()
    for api in fetches:
        versions.update(api.versions)
        errors.update(api.errors)
    durations = [each for api in fetches for each in api.durations]
    return [ApiFacts("Fetch", sum(api.requests for api in fetches), versions, errors, durations)]


def _write_replicas(page: Page, found: Snapshot) -> None:
    led = [each for each in found.partitions if each.leads]
    counts = {
        "LeaderCount": len(led),
        "PartitionCount": len(found.partitions) + found.offline,
        "OfflineReplicaCount": found.offline,
        "UnderReplicatedPartitions": sum(map(_is_under_replicated, led)),
        "UnderMinIsrPartitionCount": sum(map(_is_under_min_isr, led)),
        "AtMinIsrPartitionCount": sum(map(_is_at_min_isr, led)),
        "ReassigningPartitions": sum(_is_reassigned(found.image, each) for each in led),
    }
    for name, count in counts.items():
        page.add_one(f"ReplicaManager.{name}", count)
    page.add_one("ReplicaManager.IsrShrinksPerSec", found.isr_shrinks)
    page.add_one("ReplicaManager.IsrExpandsPerSec", found.isr_expands)
    page.add("ReplicaFetcherManager.MaxLag", [(_FETCHERS, found.follower_lag)])
    page.add("ReplicaFetcherManager.MinFetchRate", [(_FETCHERS, round(found.fetch_rate, 3))])


def _is_under_replicated(each: PartitionFacts) -> bool:
    return each.in_sync < each.replicas


def _is_reassigned(image: MetadataImage, each: PartitionFacts) -> bool:
    state = image.partition(each.topic, each.partition)
    return state is not None and bool(state.adding or state.removing)


def _is_under_min_isr(each: PartitionFacts) -> bool:
    return each.in_sync < each.min_in_sync


def _is_at_min_isr(each: PartitionFacts) -> bool:
    return each.replicas > 0 and each.in_sync == each.min_in_sync


def _write_partitions(page: Page, partitions: Sequence[PartitionFacts]) -> None:
    texts = _partition_labels(partitions)

    def add(key: str, values: Iterable[float]) -> None:
        page.add(key, zip(texts, values, strict=True))

    add("Log.Size", [each.size for each in partitions])
    add("Log.NumLogSegments", [each.segments for each in partitions])
    add("Log.LogStartOffset", [each.log_start_offset for each in partitions])
    add("Log.LogEndOffset", [each.log_end_offset for each in partitions])
    add("Partition.ReplicasCount", [each.replicas for each in partitions])
    add("Partition.InSyncReplicasCount", [each.in_sync for each in partitions])
    add("Partition.UnderReplicated", [int(_is_under_replicated(each)) for each in partitions])
    add("Partition.UnderMinIsr", [int(_is_under_min_isr(each)) for each in partitions])
    add("Partition.AtMinIsr", [int(_is_at_min_isr(each)) for each in partitions])
    unstable = [each.high_watermark - each.last_stable_offset if each.leads else 0 for each in partitions]
    add("Partition.LastStableOffsetLag", unstable)


def _partition_labels(partitions: Iterable[PartitionFacts]) -> list[str]:
    """Topic names are Kafka's: nothing in them has to be escaped."""
    return [f'topic="{each.topic}",partition="{each.partition}"' for each in partitions]


def _write_logs(page: Page, found: Snapshot) -> None:
    page.add_one("LogManager.OfflineLogDirectoryCount", sum(offline for _, offline in found.directories))
    texts = [labels({"logDirectory": path}) for path, _ in found.directories]
    offline = [int(offline) for _, offline in found.directories]
    page.add("LogManager.LogDirectoryOffline", zip(texts, offline, strict=True))
    free = [(text, each) for text, each in zip(texts, found.free_bytes, strict=True) if each is not None]
    page.add("kafkapy_log_directory_free_bytes", free)
    page.add_timer(
        "LogFlushStats.LogFlushRateAndTimeMs", [("", found.flushes)], quantiles(found.flush_seconds)
    )


def _write_clients(page: Page, found: Snapshot) -> None:
    texts = [labels({"user": each.principal, "client_id": each.client_id}) for each in found.clients]
    for key, attribute in _OF_CLIENTS.items():
        value: Callable[[ClientBytes], float] = attrgetter(attribute)
        page.add(key, zip(texts, map(value, found.clients), strict=True))


def _write_quotas(page: Page, found: Snapshot) -> None:
    for quota_type, quotas in found.quotas.items():
        rate, throttle = _OF_QUOTAS[quota_type]
        texts = [_quota_labels(each.tags) for each in quotas]
        page.add(rate, zip(texts, [round(each.rate, 3) for each in quotas], strict=True))
        page.add(throttle, zip(texts, [round(each.throttle_ms, 3) for each in quotas], strict=True))


def _quota_labels(tags: Mapping[str, str]) -> str:
    """The tags as labels; an operator's class chooses their names."""
    return labels({_NOT_IN_LABELS.sub("_", name): value for name, value in tags.items()})


def _write_cleaner(page: Page, found: Snapshot) -> None:
    page.add_one("LogCleaner.max-clean-time-secs", round(found.clean_seconds, 3))
    page.add_one("LogCleaner.cleaner-recopy-percent", round(100 * found.recopied, 1))
    page.add_one("LogCleaner.DeadThreadCount", found.dead_cleaners)
    page.add_one("LogCleanerManager.max-dirty-percent", int(100 * found.dirty_ratio))
    page.add_one("LogCleanerManager.time-since-last-run-ms", int(1000 * found.cleaner_rest))
    counts = dict.fromkeys((path for path, _ in found.directories), 0)
    sizes = dict(counts)
    for path, size in found.uncleanable:
        counts[path] = counts.get(path, 0) + 1
        sizes[path] = sizes.get(path, 0) + size
    for key, numbers in (("uncleanable-partitions-count", counts), ("uncleanable-bytes", sizes)):
        samples = [(labels({"logDirectory": path}), number) for path, number in numbers.items()]
        page.add(f"LogCleanerManager.{key}", samples)


def _write_network(page: Page, found: Snapshot) -> None:
    per_listener = [
        (labels({"listener": name, "networkProcessor": "0"}), count)
        for name, count in sorted(found.connections.items())
    ]
    page.add("socket-server-metrics.connection-count", per_listener)
    page.add("DelayedOperationPurgatory.PurgatorySize", _purgatories(found.waiting))
    page.add_one("RequestChannel.RequestQueueSize", found.connections_in_turn)
    page.add_one("RequestChannel.ResponseQueueSize", found.answers_waiting)
    page.add_one("SocketServer.MemoryPoolUsed", found.buffered_bytes)
    page.add_one("SocketServer.MemoryPoolAvailable", max(found.max_buffered - found.buffered_bytes, 0))
    page.add_one("FetchSessionCache.NumIncrementalFetchSessions", found.fetch_sessions)
    page.add_one("FetchSessionCache.IncrementalFetchSessionEvictionsPerSec", found.fetch_evictions)
    _write_software(page, found.software)
    page.add_one("KafkaServer.BrokerState", RUNNING)
    for key, kind in (("linux-disk-read-bytes", "read_bytes"), ("linux-disk-write-bytes", "write_bytes")):
        if kind in (io := _disk_bytes()):
            page.add_one(f"KafkaServer.{key}", io[kind])


def _write_software(page: Page, counts: Mapping[tuple[str, str, str], int]) -> None:
    """Connections by software; Confluent's rules spell the labels in their own way."""
    kinds = ("clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor")
    if page.spelling is Spelling.CONFLUENT:
        kinds = ("client_software_name", "client_software_version", "listener", "network_processor")
    samples = [(labels(dict(zip(kinds, (*each, "0"), strict=True))), count) for each, count in counts.items()]
    page.add("socket-server-metrics.connections", samples)


def _purgatories(waiting: Counter[int]) -> list[Sample]:
    return [
        (f'delayedOperation="{name}"', sum(waiting[key] for key in keys))
        for name, keys in _PURGATORIES.items()
    ]


def _disk_bytes() -> dict[str, int]:
    """The bytes that this process has read and written, as Linux counts them; else nothing."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


def _write_loads(page: Page, found: Snapshot) -> None:
    for kind, seconds in found.load_seconds.items():
        average = sum(seconds) / len(seconds) if seconds else 0.0
        page.add_one(f"{kind}.partition-load-time-avg", round(average * 1000, 3))
        page.add_one(f"{kind}.partition-load-time-max", round(max(seconds, default=0.0) * 1000, 3))


def _write_zookeeper(page: Page, found: ZooKeeperFacts) -> None:
    requests = [("", found.requests)]
    page.add_timer("ZooKeeperClientMetrics.ZooKeeperRequestLatencyMs", requests, quantiles(found.seconds))
    page.add_one("SessionExpireListener.ZooKeeperSyncConnectsPerSec", found.connects)
    page.add_one("SessionExpireListener.ZooKeeperDisconnectsPerSec", found.disconnects)
    page.add_one("SessionExpireListener.ZooKeeperExpiresPerSec", found.expires)
    page.add_one("SessionExpireListener.ZooKeeperAuthFailuresPerSec", found.refusals)


def _write_groups(page: Page, found: Snapshot) -> None:
    types = Counter(group.type for group in found.groups)
    states = Counter((group.type, group.state) for group in found.groups)
    page.add_one("GroupMetadataManager.NumGroups", len(found.groups))
    page.add_one("GroupMetadataManager.NumOffsets", found.committed)
    for state in GroupState:
        count = states[GroupType.CLASSIC, state.value]
        page.add_one(f"GroupMetadataManager.NumGroups{state.value}", count)
    by_type = [(f'protocol="{each.value}"', types[each]) for each in GroupType]
    page.add("group-coordinator-metrics.group-count", by_type)
    for group_type, (key, names) in _STATES.items():
        samples = [(f'state="{each.value}"', states[group_type, each.value]) for each in names]
        page.add(f"group-coordinator-metrics.{key}", samples)
    page.add(
        "kafkapy_transactions", [(f'state="{name}"', n) for name, n in sorted(found.transactions.items())]
    )


def _write_offsets(page: Page, found: Snapshot) -> None:
    page.add(
        "kafka_consumergroup_members",
        [(labels({"consumergroup": each.group_id}), each.members) for each in found.groups],
    )
    groups = {each.group_id: labels({"consumergroup": each.group_id}) for each in found.groups}
    texts = [
        f'{groups[each.group_id]},topic="{each.partition.topic}",partition="{each.partition.partition}"'
        for each in found.offsets
    ]
    facts = list(zip(texts, found.offsets, strict=True))
    page.add("kafka_consumergroup_current_offset", [(text, each.offset) for text, each in facts])
    known = [(text, each) for text, each in facts if each.end is not None]
    page.add("kafka_consumergroup_lag", [(text, lag(each)) for text, each in known])
    page.add(
        "kafka_consumergroup_lag_seconds",
        [(text, age) for text, each in known if (age := lag_seconds(each, found.now_ms)) is not None],
    )
    offsets: defaultdict[str, int] = defaultdict(int)
    lags: defaultdict[str, int] = defaultdict(int)
    for each in found.offsets:
        text = f'{groups[each.group_id]},topic="{each.partition.topic}"'
        offsets[text] += each.offset
        if each.end is not None:
            lags[text] += lag(each)
    page.add("kafka_consumergroup_current_offset_sum", offsets.items())
    page.add("kafka_consumergroup_lag_sum", lags.items())
    page.add_one("kafkapy_metrics_offsets_left_out", found.offsets_left_out)


def lag(facts: OffsetFacts) -> int:
    """How many records the group has not committed."""
    assert facts.end is not None
    return max(facts.end - facts.offset, 0)


def lag_seconds(facts: OffsetFacts, now_ms: int) -> float | None:
    """How old the first record is that the group has not committed; None if that is not known."""
    if not lag(facts):
        return 0
    return None if facts.written_ms is None else max(now_ms - facts.written_ms, 0) / 1000


def _write_cluster(page: Page, image: MetadataImage) -> None:
    """What only the controller shows, so that the sum over all brokers is right."""
    page.add_one("kafka_brokers", len(image.brokers))
    infos = []
    for broker in image.brokers.values():
        endpoint = next(iter(broker.endpoints.values()), None)
        address = "" if endpoint is None else format_address(endpoint.host, endpoint.port)
        infos.append((labels({"id": str(broker.id), "address": address}), 1))
    page.add("kafka_broker_info", infos)
    counts = [(f'topic="{name}"', len(topic.partitions)) for name, topic in image.topics.items()]
    page.add("kafka_topic_partitions", counts)


def _write_controller(page: Page, found: Snapshot) -> None:
    """As in Apache Kafka, all is zero on brokers that are not the controller."""
    image = found.image
    is_controller = image.controller_id == found.node_id
    states = [state for topic in image.topics.values() for state in topic.partitions if state.exists]
    counts = {
        "ActiveControllerCount": 1,
        "ActiveBrokerCount": len(image.brokers),
        "GlobalTopicCount": len(image.topics),
        "GlobalPartitionCount": len(states),
        "OfflinePartitionsCount": sum(state.leader == NO_LEADER for state in states),
        "PreferredReplicaImbalanceCount": sum(state.leader != state.replicas[0] for state in states),
    }
    for name, count in counts.items():
        page.add_one(f"KafkaController.{name}", count if is_controller else 0)
    elections, unclean = found.elections
    page.add_one("ControllerStats.UncleanLeaderElectionsPerSec", unclean)
    page.add_timer("ControllerStats.LeaderElectionRateAndTimeMs", [("", elections)], [])


def _write_exporter(page: Page, found: Snapshot) -> None:
    """The names of kafka_exporter; each partition is shown by its leader only."""
    led = [each for each in found.partitions if each.leads]
    texts = _partition_labels(led)

    def add(name: str, values: Iterable[float]) -> None:
        page.add(f"kafka_topic_partition_{name}", zip(texts, values, strict=True))

    add("current_offset", [each.high_watermark for each in led])
    add("oldest_offset", [each.log_start_offset for each in led])
    add("leader", [found.node_id] * len(led))
    add("replicas", [each.replicas for each in led])
    add("in_sync_replica", [each.in_sync for each in led])
    add("under_replicated_partition", [int(_is_under_replicated(each)) for each in led])
    add("leader_is_preferred", [_is_preferred(found, each) for each in led])


def _is_preferred(found: Snapshot, each: PartitionFacts) -> int:
    state = found.image.partition(each.topic, each.partition)
    return int(state is not None and state.replicas[0] == found.node_id)


def write_build(page: Page, version: str) -> None:
    """Write which broker, and which Python, this is."""
    text = labels({"version": version, "python": platform.python_version()})
    page.add("kafkapy_build_info", [(text, 1)])
