"""Sends a consumer to a replica in its own rack (KIP-392).

With `replica.selector.class` a leader tells consumers that name their rack which replica to read from: itself
if it is in that rack, otherwise the replica there that is in sync, has the consumer's offset, and is ahead of
the others there. Without such a replica the leader serves the consumer.

Source: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.configs.unsupported import RACK_AWARE_SELECTOR
from kafkapy.metadata.image import Broker
from kafkapy.replicas.leader import Leader


def is_rack_aware(selector: str | None) -> bool:
    """Whether this value of `replica.selector.class` sends consumers to other replicas."""
    return selector is not None and selector.strip() == RACK_AWARE_SELECTOR


def nearest_replica(
    leader: Leader, offset: int, rack: str, brokers: Mapping[int, Broker], node_id: int
) -> int | None:
    """The broker that should serve a consumer in `rack`; None for the leader itself.

    `brokers` are those that live. `node_id` is the leader's.
    """
    own = brokers.get(node_id)
    if own is None or own.rack == rack:
        return None
    near = [
        replica
        for replica in leader.in_sync_with(offset)
        if (broker := brokers.get(replica.id)) is not None and broker.rack == rack
    ]
    best = max(near, key=lambda each: (each.log_end_offset, each.last_caught_up, each.id), default=None)
    return None if best is None else best.id
