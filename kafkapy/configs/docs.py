"""A sentence on the meaning of each setting, for DescribeConfigs (v3+, KIP-569)."""

from __future__ import annotations

from typing import Final

from kafkapy.configs.config import broker_synonym
from kafkapy.configs.keys import group_keys, topic_keys

_TOPIC: Final = {
    "cleanup.policy": "Whether old segments are deleted, compacted to the last record of each key, or both.",
    "compression.gzip.level": "The level of gzip where the broker compresses.",
    "compression.lz4.level": "The level of lz4 where the broker compresses.",
    "compression.type": "The compression of the stored batches; producer keeps what the producer chose.",
    "compression.zstd.level": "The level of zstd where the broker compresses.",
    "delete.retention.ms": "How long compaction keeps the tombstone of a deleted key, in milliseconds.",
    "file.delete.delay.ms": "How long a file that is no longer used stays on disk, in milliseconds.",
    "flush.messages": "How many records may be written before the log is synced to disk.",
    "flush.ms": "How long a record may be unsynced, in milliseconds.",
    "follower.replication.throttled.replicas": "Replicas that fetch throttled, as partition:broker, or *.",
    "index.interval.bytes": "How many bytes of records lie between two entries of the offset index.",
    "leader.replication.throttled.replicas": "Replicas that are served throttled, as partition:broker, or *.",
    "local.retention.bytes": "Bytes of a tiered partition that stay on local disk; -2 is retention.bytes.",
    "local.retention.ms": "How long segments of a tiered partition stay on local disk; -2 is retention.ms.",
    "max.compaction.lag.ms": "The longest time that a record can wait for compaction, in milliseconds.",
    "max.message.bytes": "The largest record batch that may be produced, in bytes, after compression.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may be ahead of the broker's clock.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may be behind the broker's clock.",
    "message.timestamp.type": "Whether a record's timestamp is the producer's or the time of the append.",
    "min.cleanable.dirty.ratio": "The share of the log that must be uncompacted before it is compacted.",
    "min.compaction.lag.ms": "The shortest time that a record stays uncompacted, in milliseconds.",
    "min.insync.replicas": "How many replicas must be in sync for acks=all to be accepted.",
    "preallocate": "Whether a new segment takes its space on disk at once.",
    "remote.log.copy.disable": "Whether a tiered topic stops to copy segments to remote storage.",
    "remote.log.delete.on.disable": "Whether the remote segments go when tiering is switched off.",
    "remote.storage.enable": "Whether the topic is tiered.",
    "retention.bytes": "The size of a partition above which old segments are deleted; -1 is no limit.",
    "retention.ms": "The age at which a segment is deleted, in milliseconds; -1 is no limit.",
    "segment.bytes": "The size of a segment file.",
    "segment.index.bytes": "The size of a segment's index files.",
    "segment.jitter.ms": "The most that is taken off segment.ms at random, to spread the rolls.",
    "segment.ms": "The age at which a segment that is not full is rolled, in milliseconds.",
    "unclean.leader.election.enable": "Whether a replica out of sync may lead, which can lose records.",
}

_GROUP: Final = {
    "consumer.assignment.interval.ms": "The time between two assignments of a consumer group.",
    "consumer.heartbeat.interval.ms": "How often members of a consumer group send heartbeats.",
    "consumer.session.timeout.ms": "After what silence a member of a consumer group is expelled.",
    "share.assignment.interval.ms": "The time between two assignments of a share group.",
    "share.auto.offset.reset": "Where a share group starts: at an end of the log, or some time ago.",
    "share.delivery.count.limit": "How often a record is delivered to a share group at most.",
    "share.heartbeat.interval.ms": "How often members of a share group send heartbeats.",
    "share.isolation.level": "Whether a share group is given records of open and aborted transactions.",
    "share.partition.max.record.locks": "How many records of a partition may be locked for a share group.",
    "share.record.lock.duration.ms": "How long a record is locked for the member that it was delivered to.",
    "share.renew.acknowledge.enable": "Whether members of a share group may prolong the locks of records.",
    "share.session.timeout.ms": "After what silence a member of a share group is expelled.",
    "streams.assignment.interval.ms": "The time between two assignments of a streams group.",
    "streams.heartbeat.interval.ms": "How often members of a streams group send heartbeats.",
    "streams.initial.rebalance.delay.ms": "How long a new streams group waits for more members.",
    "streams.num.standby.replicas": "How many standby replicas each task of a streams group has.",
    "streams.session.timeout.ms": "After what silence a member of a streams group is expelled.",
}

_CLIENT_METRICS: Final = {
    "interval.ms": "How often clients push their metrics, in milliseconds.",
    "match": "Which clients push metrics: a property of the client, = and a regular expression.",
    "metrics": "How the names of the metrics begin that clients push; * is all.",
}

_BROKER: Final = {
    "allow.everyone.if.no.acl.found": "Whether everyone may use what no ACL covers.",
    "authorizer.class.name": "What decides what clients may do: Kafka's StandardAuthorizer, or module:Class.",
    "super.users": "Principals that may do everything, separated by semicolons: User:admin;User:broker.",
    "advertised.listeners": "What clients are told to connect to; if not set, the address they came in by.",
    "auto.create.topics.enable": "Whether a topic is created when a client asks for its metadata.",
    "broker.id": "The id of this broker; node.id by its former name.",
    "broker.rack": "Where this broker is, so that replicas can be spread.",
    "connections.max.idle.ms": "How long a connection may be idle before it is closed, in milliseconds.",
    "client.quota.callback.class": "The Python class, as module:Class, that decides on quotas of clients.",
    "controller.quota.window.num": "How many windows a rate of changes of topics may save up for.",
    "controller.quota.window.size.seconds": "How long each of these windows is, in seconds.",
    "default.replication.factor": "The replication factor of topics created without one.",
    "delegation.token.expiry.check.interval.ms": "How often expired delegation tokens are removed.",
    "delegation.token.expiry.time.ms": "How long a delegation token counts unless it is renewed, in ms.",
    "delegation.token.master.key": "delegation.token.secret.key by its former name.",
    "delegation.token.max.lifetime.ms": "How long a delegation token can be renewed, in milliseconds.",
    "delegation.token.secret.key": "The key of delegation tokens, the same in all brokers; empty: no tokens.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "durability": "What acks=all means: on disk (fsync), or in the page cache as with Apache Kafka (os).",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members, in milliseconds.",
    "listeners": "Where the broker listens, as NAME://host:port.",
    "log.dir": "The data directory; log.dirs for several.",
    "log.dirs": "The data directories.",
    "log.retention.hours": "Hours before a segment is deleted; log.retention.ms and .minutes come before it.",
    "log.retention.minutes": "Minutes before a segment is deleted; log.retention.ms comes before it.",
    "log.roll.hours": "Hours before a segment is rolled; log.roll.ms comes before it.",
    "max.connections": "How many connections the broker accepts.",
    "max.connections.per.ip": "How many connections the broker accepts from one address.",
    "max.decompressed.message.bytes": "The most that one record batch may decompress to.",
    "metrics.host": "The address of the HTTP port for metrics.",
    "metrics.names": "Whose names the metrics have: jmx, confluent or strimzi.",
    "slow.request.log.ms": "After how many milliseconds a request is logged as slow; null: never.",
    "metrics.port": "The HTTP port for metrics, health and readiness.",
    "node.id": "The id of this broker.",
    "num.partitions": "The number of partitions of topics created without one.",
    "offsets.retention.minutes": "How long a group's offsets are kept after its last member has left.",
    "offsets.topic.num.partitions": "The number of partitions of __consumer_offsets.",
    "queued.max.request.bytes": "Bytes of requests that may be received and not yet handled; -1 is no limit.",
    "quota.window.num": "Over how many windows the rates of quotas are measured.",
    "quota.window.size.seconds": "How long each of these windows is, in seconds.",
    "request.receive.timeout.ms": "How long a request may take to arrive, in milliseconds.",
    "socket.request.max.bytes": "The largest request.",
    "ssl.allow.dn.changes": "Whether a new certificate may have another subject than the one in use.",
    "ssl.allow.san.changes": "Whether a new certificate may lack alternative names of the one in use.",
    "zookeeper.sasl.jaas.config": "The login at ZooKeeper, as the section Client of a JAAS file has it.",
}


def documentation(name: str) -> str | None:
    """The sentence for a setting; None if there is none."""
    return _ALL.get(name)


_OF_TOPICS: Final = {
    synonym: f"The default of the topic setting {name}. {_TOPIC[name]}"
    for name in topic_keys()
    if (synonym := broker_synonym(name)) is not None and synonym != name
}
_OF_GROUPS: Final = {
    synonym: f"The default of the group setting {name}. {_GROUP[name]}"
    for name, key in group_keys().items()
    for synonym in key.synonyms
}
_ALL: Final = {**_OF_GROUPS, **_OF_TOPICS, **_BROKER, **_CLIENT_METRICS, **_GROUP, **_TOPIC}
