"""The state of a cluster that follows from the records of Kafka's metadata log.

Source: TopicsDelta, PartitionRegistration.merge, ConfigurationsDelta, ProducerIdsDelta, FeaturesDelta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kafkapy.configs.kind import ResourceType
from kafkapy.metadata.quotas import QuotaEntity, quota_entity
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kafkapy.protocol.types import Uuid, uuid_to_text
from kafkapy.tools.migrate.acls import acl_nodes
from kafkapy.tools.migrate.cluster import KnownCluster, KnownPartition, KnownTopic
from kafkapy.tools.migrate.credentials import credentials_of, with_credentials
from kafkapy.tools.migrate.delegation_tokens import tokens_of
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.settings import kept_quotas

_LEADER_UNCHANGED: Final = -2


def replay(messages: Iterable[TopMessage | int], described_by: str) -> KnownCluster:
    """Return the cluster that the records describe.

    Args:
        described_by: what the records were read from, for messages.

    Raises:
        MigrationError: the records contradict each other, so some are missing.
    """
    state = _Replay()
    for message in messages:
        state.apply(message)
    return state.result(described_by)


class _Replay:
    def __init__(self) -> None:
        self._topics: dict[Uuid, KnownTopic] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._next_producer_id = 0
        self._acls: dict[Uuid, AccessControlEntryRecord] = {}
        self._scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self._tokens: dict[str, DelegationTokenRecord] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._features: dict[str, int] = {}
        self._unknown: Counter[int] = Counter()

    def apply(self, message: TopMessage | int) -> None:
        if isinstance(message, int):
            self._unknown[message] += 1
        elif isinstance(message, TopicRecord):
            self._topics[message.topic_id] = KnownTopic(message.name, message.topic_id)
        elif isinstance(message, PartitionRecord):
            self._topic(message.topic_id).partitions[message.partition_id] = KnownPartition(
                message.leader_epoch,
                tuple(message.replicas),
                _in_sync(message.replicas, message.isr, message.eligible_leader_replicas),
                tuple(message.directories),
            )
        elif isinstance(message, PartitionChangeRecord):
            self._change(message)
        elif isinstance(message, RemoveTopicRecord):
            topic = self._topics.pop(message.topic_id, None)
            if topic is not None:
                self._configs.pop((ResourceType.TOPIC, topic.name), None)
        elif isinstance(message, ConfigRecord):
            configs = self._configs.setdefault((message.resource_type, message.resource_name), {})
            if message.value is None:
                configs.pop(message.name, None)
            else:
                configs[message.name] = message.value
        elif isinstance(message, ProducerIdsRecord):
            self._next_producer_id = message.next_producer_id
        elif isinstance(message, ClientQuotaRecord):
            entity = quota_entity({each.entity_type: each.entity_name for each in message.entity})
            quotas = self._quotas.setdefault(entity, {})
            if message.remove:
                quotas.pop(message.key, None)
            else:
                quotas[message.key] = message.value
        elif isinstance(message, FeatureLevelRecord):
            self._features[message.name] = message.feature_level
        else:
            self._apply_security(message)

    def _apply_security(self, message: TopMessage) -> None:
        """Apply a record about what clients may do, or how they log in."""
        if isinstance(message, AccessControlEntryRecord):
            self._acls[message.id] = message
        elif isinstance(message, RemoveAccessControlEntryRecord):
            self._acls.pop(message.id, None)
        elif isinstance(message, UserScramCredentialRecord):
            self._scram[message.name, message.mechanism] = message
        elif isinstance(message, RemoveUserScramCredentialRecord):
            self._scram.pop((message.name, message.mechanism), None)
        elif isinstance(message, DelegationTokenRecord):
            self._tokens[message.token_id] = message
        elif isinstance(message, RemoveDelegationTokenRecord):
            self._tokens.pop(message.token_id, None)

    def _topic(self, topic_id: Uuid) -> KnownTopic:
        try:
            return self._topics[topic_id]
        except KeyError:
            raise MigrationError(
                f"The metadata log refers to the topic {uuid_to_text(topic_id)} before it creates it: a part "
                "of the log is missing."
            ) from None

    def _change(self, change: PartitionChangeRecord) -> None:
        partitions = self._topic(change.topic_id).partitions
        before = partitions.get(change.partition_id)
        if before is None:
            raise MigrationError(
                "The metadata log changes a partition before it creates it: a part of the log is missing."
            )
        replicas = before.replicas if change.replicas is None else tuple(change.replicas)
        isr = before.in_sync if change.isr is None else change.isr
        partitions[change.partition_id] = KnownPartition(
            before.leader_epoch + (change.leader != _LEADER_UNCHANGED),
            replicas,
            _in_sync(replicas, isr, change.eligible_leader_replicas),
            before.directories if change.directories is None else tuple(change.directories),
        )

    def result(self, described_by: str) -> KnownCluster:
        for topic in self._topics.values():
            topic.configs = self._configs.get((ResourceType.TOPIC, topic.name), {})
        quotas, unknown_quotas = kept_quotas(self._quotas)
        not_carried: list[str] = []
        acls = acl_nodes(self._acls.values(), not_carried)
        tokens = tokens_of(self._tokens.values(), not_carried)
        counted = {
            "client quotas of unknown kinds": unknown_quotas,
            "metadata records of unknown types": self._unknown.total(),
        }
        return KnownCluster(
            described_by,
            {topic.name: topic for topic in self._topics.values()},
            self._settings_of(ResourceType.BROKER),
            self._settings_of(ResourceType.GROUP),
            self._settings_of(ResourceType.CLIENT_METRICS),
            with_credentials(quotas, credentials_of(self._scram.values())),
            acls,
            tokens,
            self._next_producer_id,
            not_carried + [f"{count} {what}" for what, count in counted.items() if count],
        )

    def _settings_of(self, resource_type: int) -> dict[str, dict[str, str]]:
        """Return the settings of all resources of a type, by name."""
        return {
            name: configs
            for (kind, name), configs in self._configs.items()
            if kind == resource_type and configs
        }


def _in_sync(replicas: Sequence[int], isr: Sequence[int], eligible: Sequence[int] | None) -> tuple[int, ...]:
    """Return the replicas that have all committed records.

    These are the in-sync replicas and the eligible leader replicas (KIP-966). A single replica always has all
    records.
    """
    return tuple(replicas) if len(replicas) == 1 else (*isr, *(eligible or ()))
