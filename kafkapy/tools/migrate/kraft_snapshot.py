"""The snapshot of Kafka's metadata with which an exported controller starts.

The file is `__cluster_metadata-0/<20-digit offset>-<10-digit epoch>.checkpoint`; it holds record batches
(kraft_records.py). There is no log. If a controller finds a snapshot above the end of its log, it begins its
log at the snapshot, as a follower does that crashed after it received a snapshot.

The metadata.version is that of Kafka 3.9. Every later release opens it, and `kafka-features upgrade` enables
the later release's features. Partitions have no leader: the controller elects the broker when it registers,
in a new leader epoch.

Source: RecordsSnapshotWriter, KafkaMetadataLog, ReplicationControlManager; KIP-630, KIP-853, KIP-858.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from kafkapy.configs.kind import ResourceType
from kafkapy.configs.quotas import quotas
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.codec import encode
from kafkapy.protocol.control_records import ControlType, control_record_key
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from kafkapy.protocol.messages.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.disk.file_names import kraft_snapshot_name
from kafkapy.tools.migrate.acls import acl_records
from kafkapy.tools.migrate.cluster import Cluster
from kafkapy.tools.migrate.credentials import credential_records
from kafkapy.tools.migrate.delegation_tokens import token_records
from kafkapy.tools.migrate.kraft_records import encode_metadata_record

METADATA_VERSION: Final = 21
"""3.9-IV0; its PartitionRecord has version 1."""

_PARTITION_RECORD_VERSION: Final = 1
_EPOCH: Final = 1
_RECORDS_PER_BATCH: Final = 1000
"""So a batch is far smaller than Kafka's limit of 8 MiB."""


def snapshot(
    cluster: Cluster,
    directories: Mapping[TopicPartition, Uuid],
    voter_directory: Uuid,
) -> tuple[str, bytes]:
    """Return the name and the content of the snapshot.

    Args:
        directories: the id of the log directory of each partition.
        voter_directory: the id of the log directory that has the metadata.
    """
    now = int(time.time() * 1000)
    records = [
        Record(-1, now, None, encode_metadata_record(message, version))
        for message, version in _records(cluster, directories)
    ]
    out = _control_batch(0, now, _head(cluster.node_id, voter_directory, now))
    offset = 3
    for start in range(0, len(records), _RECORDS_PER_BATCH):
        part = records[start : start + _RECORDS_PER_BATCH]
        out += build_batch(part, base_offset=offset, leader_epoch=_EPOCH)
        offset += len(part)
    out += _control_batch(offset, now, [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord())])
    return kraft_snapshot_name(len(records), _EPOCH), bytes(out)


def _head(node_id: int, voter_directory: Uuid, now: int) -> list[tuple[ControlType, TopMessage]]:
    voter = VotersRecordVoter(
        voter_id=node_id,
        voter_directory_id=voter_directory,
        # If the leader listens elsewhere, its first record says so.
        endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return [
        (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=now)),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1)),
        (ControlType.KRAFT_VOTERS, VotersRecord(voters=[voter])),
    ]


def _control_batch(base_offset: int, now: int, messages: list[tuple[ControlType, TopMessage]]) -> bytearray:
    records = [Record(-1, now, control_record_key(kind), encode(message, 0)) for kind, message in messages]
    return build_batch(records, base_offset=base_offset, leader_epoch=_EPOCH, control=True)


def _records(
    cluster: Cluster, directories: Mapping[TopicPartition, Uuid]
) -> Iterator[tuple[TopMessage, int]]:
    """Yield the metadata records with their versions."""
    image, node_id = cluster.image, cluster.node_id
    yield FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION), 0
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id), 0
        for index, state in enumerate(topic.partitions):
            yield (
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic.id,
                    replicas=[node_id],
                    isr=[node_id],
                    leader=NO_LEADER,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=0,
                    directories=[directories[TopicPartition(topic.name, index)]],
                ),
                _PARTITION_RECORD_VERSION,
            )
    for topic in image.topics.values():
        for name, value in topic.configs.items():
            yield _config(ResourceType.TOPIC, topic.name, name, value), 0
    for broker, configs in image.broker_configs.items():
        for name, value in configs.items():
            yield _config(ResourceType.BROKER, broker, name, value), 0
    for subscription, configs in image.client_metrics_configs.items():
        for name, value in configs.items():
            yield _config(ResourceType.CLIENT_METRICS, subscription, name, value), 0
    for entity, configs in image.client_quotas.configs.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, number in quotas(configs).items():
            yield ClientQuotaRecord(entity=parts, key=key, value=number), 0
    for credential in credential_records(image.client_quotas):
        yield credential, 0
    for record in acl_records(image.acls):
        yield record, 0
    for token in token_records(image.delegation_tokens):
        yield token, 0
    if cluster.next_producer_id:
        yield (
            ProducerIdsRecord(broker_id=node_id, broker_epoch=0, next_producer_id=cluster.next_producer_id),
            0,
        )


def _config(resource_type: int, resource: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)
