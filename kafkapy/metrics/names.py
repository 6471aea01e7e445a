"""The names of the metrics: Kafka's MBeans, and how three exporters spell them.

    MBean     kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec
    jmx       kafka_server_brokertopicmetrics_messagesin_total       the JMX exporter's example rules
    confluent kafka_server_brokertopicmetrics_messagesinpersec       Confluent's rules
    strimzi   kafka_server_brokertopicmetrics_messagesinpersec_total Strimzi's metrics reporter

Dashboards query one of the three. `MBEANS` is the only table; the spellings follow from rules, with the
exceptions in its rows. `OTHERS` are names that are always the same: those of kafka_exporter, and our own.

Sources: jmx_exporter's examples/kafka-2_0_0.yml, Confluent's jmx-monitoring-stacks, Strimzi's dashboards.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple


class Spelling(Enum):
    """The values of `metrics.names`."""

    JMX = "jmx"
    CONFLUENT = "confluent"
    STRIMZI = "strimzi"


class Kind(Enum):
    """The kinds of metrics that Kafka's MBeans are."""

    GAUGE = "gauge"
    """A number that rises and falls: the attribute Value."""
    METER = "meter"
    """Something that is counted, with a name that ends in PerSec: the attribute Count."""
    TIMER = "timer"
    """Durations: the attribute Count, and percentiles."""
    SHARE = "share"
    """A share between 0 and 1, with a name that ends in Percent."""


class MBean(NamedTuple):
    """One of Kafka's metrics."""

    domain: str
    type: str
    name: str
    kind: Kind
    help: str
    confluent: str | None = None
    """Its name in Confluent's spelling, if that does not follow from the rules."""
    strimzi_counts: str | None = None
    """What Strimzi's reporter counts under its name with `_total`, in place of the share."""

    @property
    def key(self) -> str:
        """What this package calls it."""
        return f"{self.type}.{self.name}"

    def spelled(self, spelling: Spelling) -> str:
        """Its name in Prometheus."""
        if spelling is Spelling.CONFLUENT and self.confluent is not None:
            return self.confluent
        name, kind = self.name, self.kind
        if kind is Kind.METER:
            if spelling is Spelling.JMX:
                name = name.removesuffix("PerSec")
            if spelling is not Spelling.CONFLUENT:
                name = f"{name}_total"
        elif kind is Kind.SHARE and spelling is Spelling.JMX:
            name = f"{name.removesuffix('Percent')}_percent"
        elif self.strimzi_counts is not None and spelling is Spelling.STRIMZI:
            name = f"{name}_total"
        parts = (self.domain, self.type, name)
        return "_".join(part.replace(".", "_").replace("-", "_").lower() for part in parts)


GAUGE, METER, TIMER, SHARE = Kind.GAUGE, Kind.METER, Kind.TIMER, Kind.SHARE

MBEANS: Final = (
    MBean("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", METER, "Records appended"),
    MBean("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", METER, "Bytes appended"),
    MBean("kafka.server", "BrokerTopicMetrics", "BytesOutPerSec", METER, "Bytes in answers to consumers"),
    MBean("kafka.server", "BrokerTopicMetrics", "BytesRejectedPerSec", METER, "Bytes of batches too large"),
    MBean("kafka.server", "BrokerTopicMetrics", "ReplicationBytesInPerSec", METER, "Bytes from leaders"),
    MBean("kafka.server", "BrokerTopicMetrics", "ReplicationBytesOutPerSec", METER, "Bytes to followers"),
    MBean("kafka.server", "BrokerTopicMetrics", "TotalProduceRequestsPerSec", METER, "Batches to append"),
    MBean("kafka.server", "BrokerTopicMetrics", "TotalFetchRequestsPerSec", METER, "Reads for fetches"),
    MBean("kafka.server", "BrokerTopicMetrics", "FailedProduceRequestsPerSec", METER, "Batches refused"),
    MBean("kafka.server", "BrokerTopicMetrics", "FailedFetchRequestsPerSec", METER, "Reads that failed"),
    MBean(
        "kafka.server",
        "BrokerTopicMetrics",
        "ProduceMessageConversionsPerSec",
        METER,
        "Records from clients that know no record batches",
    ),
    MBean(
        "kafka.server",
        "BrokerTopicMetrics",
        "FetchMessageConversionsPerSec",
        METER,
        "Records to clients that know no record batches",
    ),
    MBean("kafka.server", "BrokerTopicMetrics", "TotalShareFetchRequestsPerSec", METER, "Share fetches"),
    MBean("kafka.server", "BrokerTopicMetrics", "FailedShareFetchRequestsPerSec", METER, "Those that failed"),
    MBean(
        "kafka.server",
        "BrokerTopicMetrics",
        "TotalShareAcknowledgementRequestsPerSec",
        METER,
        "Requests that acknowledge records of share groups",
    ),
    MBean(
        "kafka.server",
        "BrokerTopicMetrics",
        "FailedShareAcknowledgementRequestsPerSec",
        METER,
        "Those that failed",
    ),
    MBean("kafka.server", "ReplicaManager", "LeaderCount", GAUGE, "Partitions that this broker leads"),
    MBean("kafka.server", "ReplicaManager", "PartitionCount", GAUGE, "Partitions on this broker"),
    MBean("kafka.server", "ReplicaManager", "OfflineReplicaCount", GAUGE, "Replicas that are offline here"),
    MBean("kafka.server", "ReplicaManager", "UnderReplicatedPartitions", GAUGE, "Led, with replicas behind"),
    MBean("kafka.server", "ReplicaManager", "UnderMinIsrPartitionCount", GAUGE, "Led, with too few in sync"),
    MBean("kafka.server", "ReplicaManager", "AtMinIsrPartitionCount", GAUGE, "Led, with just enough in sync"),
    MBean("kafka.server", "ReplicaManager", "ReassigningPartitions", GAUGE, "Led, and being reassigned"),
    MBean("kafka.server", "ReplicaManager", "IsrShrinksPerSec", METER, "Replicas that fell out of sync"),
    MBean("kafka.server", "ReplicaManager", "IsrExpandsPerSec", METER, "Replicas that came into sync"),
    MBean(
        "kafka.server",
        "ReplicaFetcherManager",
        "MaxLag",
        GAUGE,
        "The most records that a replica here is behind the leader's high watermark",
    ),
    MBean(
        "kafka.server",
        "ReplicaFetcherManager",
        "MinFetchRate",
        GAUGE,
        "Fetches a second of the fetcher that asks its leader the least often",
    ),
    MBean("kafka.server", "KafkaServer", "BrokerState", GAUGE, "3: the broker is running"),
    MBean("kafka.server", "KafkaServer", "linux-disk-read-bytes", GAUGE, "Bytes read from disks"),
    MBean("kafka.server", "KafkaServer", "linux-disk-write-bytes", GAUGE, "Bytes written to disks"),
    MBean(
        "kafka.server",
        "KafkaRequestHandlerPool",
        "RequestHandlerAvgIdlePercent",
        SHARE,
        "Share of the last minute in which the event loop was idle",
        confluent="kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
        strimzi_counts="Nanoseconds in which the event loop was idle",
    ),
    MBean("kafka.server", "DelayedOperationPurgatory", "PurgatorySize", GAUGE, "Requests that wait"),
    MBean("kafka.server", "FetchSessionCache", "NumIncrementalFetchSessions", GAUGE, "Fetch sessions"),
    MBean(
        "kafka.server",
        "FetchSessionCache",
        "IncrementalFetchSessionEvictionsPerSec",
        METER,
        "Fetch sessions that made room for others",
    ),
    MBean(
        "kafka.server",
        "socket-server-metrics",
        "connection-count",
        GAUGE,
        "Connections",
        confluent="kafka_server_socketservermetrics_connection_count",
    ),
    MBean(
        "kafka.server",
        "socket-server-metrics",
        "connection-creation-rate",
        GAUGE,
        "New connections a second, in the last minute",
        confluent="kafka_server_socketservermetrics_connection_creation_rate",
    ),
    MBean(
        "kafka.server",
        "socket-server-metrics",
        "connection-close-rate",
        GAUGE,
        "Closed connections a second, in the last minute",
        confluent="kafka_server_socketservermetrics_connection_close_rate",
    ),
    MBean(
        "kafka.server",
        "socket-server-metrics",
        "connections",
        GAUGE,
        "Connections by the software of the client",
        confluent="kafka_server_socketservermetrics_connections",
    ),
    MBean(
        "kafka.server",
        "transaction-coordinator-metrics",
        "partition-load-time-avg",
        GAUGE,
        "Milliseconds that loads of partitions took",
    ),
    MBean(
        "kafka.server",
        "transaction-coordinator-metrics",
        "partition-load-time-max",
        GAUGE,
        "Milliseconds that loads of partitions took",
    ),
    MBean(
        "kafka.server",
        "group-coordinator-metrics",
        "partition-load-time-avg",
        GAUGE,
        "Milliseconds that loads of partitions took",
    ),
    MBean(
        "kafka.server",
        "group-coordinator-metrics",
        "partition-load-time-max",
        GAUGE,
        "Milliseconds that loads of partitions took",
    ),
    MBean(
        "kafka.server",
        "ZooKeeperClientMetrics",
        "ZooKeeperRequestLatencyMs",
        TIMER,
        "Requests to ZooKeeper",
    ),
    MBean(
        "kafka.server",
        "SessionExpireListener",
        "ZooKeeperSyncConnectsPerSec",
        METER,
        "Connections to ZooKeeper",
    ),
    MBean(
        "kafka.server",
        "SessionExpireListener",
        "ZooKeeperDisconnectsPerSec",
        METER,
        "Connections to ZooKeeper that were lost",
    ),
    MBean(
        "kafka.server",
        "SessionExpireListener",
        "ZooKeeperExpiresPerSec",
        METER,
        "Sessions that ZooKeeper has ended",
    ),
    MBean(
        "kafka.server",
        "SessionExpireListener",
        "ZooKeeperAuthFailuresPerSec",
        METER,
        "Logins that ZooKeeper has refused",
    ),
    MBean("kafka.server", "group-coordinator-metrics", "group-count", GAUGE, "Groups by protocol"),
    MBean("kafka.server", "group-coordinator-metrics", "consumer-group-count", GAUGE, "Consumer groups"),
    MBean("kafka.server", "group-coordinator-metrics", "share-group-count", GAUGE, "Share groups by state"),
    MBean("kafka.server", "group-coordinator-metrics", "streams-group-count", GAUGE, "Streams groups"),
    MBean("kafka.server", "ClientMetrics", "client-metrics-instance-count", GAUGE, "Clients in telemetry"),
    MBean("kafka.server", "ClientMetrics", "plugin-export-count", GAUGE, "Pushes of clients taken"),
    MBean("kafka.server", "ClientMetrics", "plugin-error-count", GAUGE, "Pushes that cannot be read"),
    MBean("kafka.server", "ClientMetrics", "throttle-count", GAUGE, "Requests in telemetry that came early"),
    MBean(
        "kafka.server",
        "ClientMetrics",
        "unknown-subscription-request-count",
        GAUGE,
        "Pushes for another subscription than the present one",
    ),
    MBean(
        "kafka.server",
        "group-coordinator-metrics",
        "share-group-rebalance-count",
        GAUGE,
        "New epochs of groups",
    ),
    MBean("kafka.server", "ShareGroupMetrics", "RecordAcknowledgementsPerSec", METER, "Records by type"),
    MBean("kafka.server", "ShareGroupMetrics", "PartitionLoadTimeMs", TIMER, "Loads of share partitions"),
    MBean("kafka.server", "SharePartitionMetrics", "InFlightMessageCount", GAUGE, "Records in flight"),
    MBean("kafka.server", "SharePartitionMetrics", "InFlightBatchCount", GAUGE, "Batches in flight"),
    MBean(
        "kafka.server",
        "SharePartitionMetrics",
        "AcquisitionLockTimeoutPerSec",
        METER,
        "Records that their members have not acknowledged in time",
    ),
    MBean("kafka.server", "ShareSessionCache", "ShareSessionsCount", GAUGE, "Sessions of members"),
    MBean("kafka.server", "ShareSessionCache", "SharePartitionsCount", GAUGE, "Partitions in sessions"),
    MBean(
        "kafka.server", "DelayedShareFetchMetrics", "ExpiresPerSec", METER, "Fetches that waited to the end"
    ),
    MBean("kafka.server", "share-coordinator-metrics", "write-total", GAUGE, "States written"),
    MBean("kafka.server", "share-coordinator-metrics", "write-latency-avg", GAUGE, "In milliseconds"),
    MBean("kafka.server", "share-coordinator-metrics", "write-latency-max", GAUGE, "In milliseconds"),
    MBean(
        "kafka.server",
        "share-coordinator-metrics",
        "num-partitions",
        GAUGE,
        "Partitions of the states that this broker coordinates, by state",
    ),
    MBean("kafka.server", "Produce", "byte-rate", GAUGE, "Bytes produced a second, by quota"),
    MBean("kafka.server", "Produce", "throttle-time", GAUGE, "Milliseconds throttled, on an average"),
    MBean("kafka.server", "Fetch", "byte-rate", GAUGE, "Bytes fetched a second, by quota"),
    MBean("kafka.server", "Fetch", "throttle-time", GAUGE, "Milliseconds throttled, on an average"),
    MBean("kafka.server", "Request", "request-time", GAUGE, "Percent of the event loop used, by quota"),
    MBean("kafka.server", "Request", "throttle-time", GAUGE, "Milliseconds throttled, on an average"),
    MBean("kafka.cluster", "Partition", "UnderReplicated", GAUGE, "1 if a replica is behind"),
    MBean("kafka.cluster", "Partition", "InSyncReplicasCount", GAUGE, "Replicas in sync"),
    MBean("kafka.cluster", "Partition", "ReplicasCount", GAUGE, "Replicas"),
    MBean("kafka.cluster", "Partition", "LastStableOffsetLag", GAUGE, "Records above the last stable offset"),
    MBean("kafka.cluster", "Partition", "UnderMinIsr", GAUGE, "1 if too few replicas are in sync"),
    MBean("kafka.cluster", "Partition", "AtMinIsr", GAUGE, "1 if just enough replicas are in sync"),
    MBean("kafka.log", "Log", "Size", GAUGE, "Bytes of a log"),
    MBean("kafka.log", "Log", "NumLogSegments", GAUGE, "Segments of a log"),
    MBean("kafka.log", "Log", "LogStartOffset", GAUGE, "The first offset of a log"),
    MBean("kafka.log", "Log", "LogEndOffset", GAUGE, "The next offset of a log"),
    MBean("kafka.log", "LogManager", "OfflineLogDirectoryCount", GAUGE, "Log directories that are offline"),
    MBean("kafka.log", "LogManager", "LogDirectoryOffline", GAUGE, "1 if a log directory is offline"),
    MBean("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", TIMER, "Syncs of logs, in milliseconds"),
    MBean("kafka.log", "LogCleaner", "max-clean-time-secs", GAUGE, "Seconds of the last pass of the cleaner"),
    MBean("kafka.log", "LogCleaner", "cleaner-recopy-percent", GAUGE, "What the last pass wrote again"),
    MBean("kafka.log", "LogCleaner", "DeadThreadCount", GAUGE, "Workers of the cleaner that have failed"),
    MBean("kafka.log", "LogCleanerManager", "max-dirty-percent", GAUGE, "The dirtiest log that is due"),
    MBean("kafka.log", "LogCleanerManager", "time-since-last-run-ms", GAUGE, "Since logs were looked at"),
    MBean(
        "kafka.log",
        "LogCleanerManager",
        "uncleanable-partitions-count",
        GAUGE,
        "Logs that cannot be compacted until the broker restarts",
    ),
    MBean("kafka.log", "LogCleanerManager", "uncleanable-bytes", GAUGE, "The bytes of these logs"),
    MBean("kafka.controller", "KafkaController", "ActiveControllerCount", GAUGE, "1 on the controller"),
    MBean("kafka.controller", "KafkaController", "ActiveBrokerCount", GAUGE, "Live brokers"),
    MBean("kafka.controller", "KafkaController", "GlobalTopicCount", GAUGE, "Topics of the cluster"),
    MBean("kafka.controller", "KafkaController", "GlobalPartitionCount", GAUGE, "Partitions of the cluster"),
    MBean(
        "kafka.controller", "KafkaController", "OfflinePartitionsCount", GAUGE, "Partitions without leader"
    ),
    MBean(
        "kafka.controller",
        "KafkaController",
        "PreferredReplicaImbalanceCount",
        GAUGE,
        "Partitions that their preferred replica does not lead",
    ),
    MBean("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec", METER, "Unclean elections"),
    MBean("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs", TIMER, "Other leaders given"),
    MBean("kafka.network", "RequestMetrics", "RequestsPerSec", METER, "Requests by API and version"),
    MBean("kafka.network", "RequestMetrics", "ErrorsPerSec", METER, "Errors in answers; NONE: requests"),
    MBean("kafka.network", "RequestMetrics", "RequestQueueTimeMs", TIMER, "Until the handler was called"),
    MBean("kafka.network", "RequestMetrics", "LocalTimeMs", TIMER, "In the handler"),
    MBean("kafka.network", "RequestMetrics", "RemoteTimeMs", TIMER, "Waiting for disks, brokers, clients"),
    MBean("kafka.network", "RequestMetrics", "ResponseQueueTimeMs", TIMER, "Waiting for earlier answers"),
    MBean("kafka.network", "RequestMetrics", "ResponseSendTimeMs", TIMER, "Encoding and sending"),
    MBean("kafka.network", "RequestMetrics", "TotalTimeMs", TIMER, "From the last byte to the answer"),
    MBean("kafka.network", "RequestChannel", "RequestQueueSize", GAUGE, "Connections that wait for a turn"),
    MBean(
        "kafka.network", "RequestChannel", "ResponseQueueSize", GAUGE, "Answers that wait for earlier ones"
    ),
    MBean(
        "kafka.network",
        "SocketServer",
        "NetworkProcessorAvgIdlePercent",
        SHARE,
        "Share of the last minute in which the event loop was idle",
    ),
    MBean("kafka.network", "SocketServer", "MemoryPoolUsed", GAUGE, "Bytes of requests not handled yet"),
    MBean("kafka.network", "SocketServer", "MemoryPoolAvailable", GAUGE, "Bytes that may still wait"),
    MBean("kafka.coordinator.group", "GroupMetadataManager", "NumGroups", GAUGE, "Groups"),
    MBean("kafka.coordinator.group", "GroupMetadataManager", "NumOffsets", GAUGE, "Committed offsets"),
    MBean("kafka.coordinator.group", "GroupMetadataManager", "NumGroupsEmpty", GAUGE, "Classic, Empty"),
    MBean("kafka.coordinator.group", "GroupMetadataManager", "NumGroupsStable", GAUGE, "Classic, Stable"),
    MBean("kafka.coordinator.group", "GroupMetadataManager", "NumGroupsDead", GAUGE, "Classic, Dead"),
    MBean(
        "kafka.coordinator.group",
        "GroupMetadataManager",
        "NumGroupsPreparingRebalance",
        GAUGE,
        "Classic groups that wait for members",
    ),
    MBean(
        "kafka.coordinator.group",
        "GroupMetadataManager",
        "NumGroupsCompletingRebalance",
        GAUGE,
        "Classic groups that wait for an assignment",
    ),
)
"""Kafka's metrics that this broker has."""


class Other(NamedTuple):
    """A metric whose name is the same in every spelling."""

    name: str
    type: str
    """The type in Prometheus."""
    help: str


OTHERS: Final = (
    Other("kafka_brokers", "gauge", "Live brokers; on the controller"),
    Other("kafka_broker_info", "gauge", "1 for each live broker; on the controller"),
    Other("kafka_topic_partitions", "gauge", "Partitions of a topic; on the controller"),
    Other("kafka_topic_partition_current_offset", "gauge", "The high watermark; on the leader"),
    Other("kafka_topic_partition_oldest_offset", "gauge", "The log start offset; on the leader"),
    Other("kafka_topic_partition_leader", "gauge", "The leader's id; on the leader"),
    Other("kafka_topic_partition_leader_is_preferred", "gauge", "1 if the preferred replica leads"),
    Other("kafka_topic_partition_replicas", "gauge", "Replicas; on the leader"),
    Other("kafka_topic_partition_in_sync_replica", "gauge", "Replicas in sync; on the leader"),
    Other("kafka_topic_partition_under_replicated_partition", "gauge", "1 if a replica is behind"),
    Other("kafka_consumergroup_members", "gauge", "Members of a group; on its coordinator"),
    Other("kafka_consumergroup_current_offset", "gauge", "The committed offset; on the coordinator"),
    Other("kafka_consumergroup_current_offset_sum", "gauge", "The committed offsets of a topic together"),
    Other("kafka_consumergroup_lag", "gauge", "Records between the committed offset and the high watermark"),
    Other("kafka_consumergroup_lag_sum", "gauge", "The lag of a topic's partitions together"),
    Other("kafka_consumergroup_lag_seconds", "gauge", "Age of the first record that is not committed"),
    Other("kafka_client_info", "gauge", "1 for each client that pushes metrics"),
    Other("kafkapy_build_info", "gauge", "1, with the version of this broker and of Python"),
    Other("kafkapy_client_metrics_left_out", "gauge", "Metrics of clients beyond the most that are shown"),
    Other("kafkapy_client_fetch_bytes_total", "counter", "Bytes of answers to fetches, by client"),
    Other("kafkapy_client_produce_bytes_total", "counter", "Bytes of Produce requests, by client"),
    Other("kafkapy_client_throttle_seconds_total", "counter", "How long clients were throttled by quotas"),
    Other("kafkapy_client_throttles_total", "counter", "How often clients have exceeded a quota"),
    Other("kafkapy_event_loop_lag_seconds", "histogram", "How late timers of the event loop are"),
    Other("kafkapy_log_directory_free_bytes", "gauge", "Bytes free in the file system of a log directory"),
    Other("kafkapy_metrics_offsets_left_out", "gauge", "Committed offsets beyond the most that are shown"),
    Other("kafkapy_transactions", "gauge", "Transactions that this broker coordinates, by state"),
)
"""Names that kafka_exporter gives, and our own."""


class Metric(NamedTuple):
    """A metric as Prometheus sees it."""

    name: str
    type: str
    help: str


class Names:
    """The metrics in one spelling, by the keys of `MBEANS` and the names of `OTHERS`."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self._metrics = {other.name: Metric(*other) for other in OTHERS}
        for mbean in MBEANS:
            kind, text = "counter" if mbean.kind is Kind.METER else "gauge", mbean.help
            if mbean.strimzi_counts is not None and spelling is Spelling.STRIMZI:
                kind, text = "counter", mbean.strimzi_counts
            self._metrics[mbean.key] = Metric(mbean.spelled(spelling), kind, text)

    def __getitem__(self, key: str) -> Metric:
        return self._metrics[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)
