"""Which brokers get the replicas of a new partition.

Without racks, the first replicas go round-robin over the brokers from a random start. The others follow with
a random shift that grows after each round, so that the partitions of one leader have their followers on
different brokers. Partitions that a topic gets later continue its round: start and shift are then the place
of partition 0's first replica among the brokers, in the order of their ids. With racks, the brokers are first
ordered so that racks alternate, and no rack gets a second replica of a partition before every rack has one.

Source: Kafka's AdminUtils.assignReplicasToBrokers, AdminZkClient.createNewPartitionsAssignment; messages of
its StripedReplicaPlacer and ReplicationControlManager (4.x).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from kafkapy.protocol.errors import ErrorCode, KafkaError


def assign_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_partition: int = 0,
    continues: int | None = None,
    chance: random.Random,
) -> list[tuple[int, ...]]:
    """The replicas of `partitions` new partitions on the live brokers.

    The keys of `racks` are the ids of the brokers. Partitions of a topic that has some already begin with
    `start_partition`, and `continues` is the first replica of its partition 0.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, there are fewer brokers than replicas; UNKNOWN_SERVER_ERROR,
            some brokers have racks and others do not, as Apache Kafka answers that.
    """
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor "
            f"of {replication_factor} cannot be reached because only {len(racks)} broker(s) are registered.",
        )
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if known and len(known) < len(racks):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment. Set broker.rack for all"
            " brokers or for none.",
        )
    brokers = _alternate_racks(known) if known else sorted(racks)
    if len(brokers) == 1:
        return [(brokers[0],)] * partitions
    if continues is None:
        start, shift = chance.randrange(len(brokers)), chance.randrange(len(brokers))
    else:
        start = shift = next((n for n, broker in enumerate(sorted(racks)) if broker >= continues), 0)
    assignment = []
    for partition in range(start_partition, start_partition + partitions):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start) % len(brokers)
        assignment.append(_place(brokers, known, first, shift, replication_factor))
    return assignment


def _place(
    brokers: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    """The replicas of one partition, whose first is `brokers[first]`."""
    replicas = [brokers[first]]
    if racks:
        shift *= len(set(racks.values()))
    step = 0
    while len(replicas) < replication_factor:
        broker = brokers[(first + 1 + (shift + step) % (len(brokers) - 1)) % len(brokers)]
        step += 1
        if broker in replicas:
            continue
        used = {racks.get(replica) for replica in replicas}
        if racks and racks[broker] in used and len(used) < len(set(racks.values())):
            continue
        replicas.append(broker)
    return tuple(replicas)


def _alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks where possible."""
    queues = [sorted(b for b, r in racks.items() if r == rack) for rack in sorted(set(racks.values()))]
    longest = max(len(queue) for queue in queues)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def check_manual_replicas(
    replicas: Sequence[int], registered: Collection[int], replication_factor: int | None
) -> None:
    """Check the replicas that a client chose for a partition.

    `replication_factor` is that of the topic's other partitions, if there are any.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT, the replicas are not valid.
    """
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in registered:
            raise _invalid(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise _invalid(f"The manual partition assignment includes the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
