"""What must hold between the replicas of a partition.

It is checked after each callback that changes one.

    one leader      at most one broker leads in a leader epoch
    equality        the records below a replica's high watermark are those that were committed there
    in-sync         each live broker in the ISR, as the metadata tree has it, has every committed record

A record is committed when it is below the high watermark of a leader. The first one that is found there
counts from then on.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.records import iter_headers
from kafkapy.replicas.partition import Partition
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.virtual.broker import SimulatedBroker
from kafkapy.virtual.metadata_tree import MemoryTree
from kafkapy.virtual.world import World

READ_AT_ONCE = 1 << 20

Key = tuple[str, int, bytes | None]
"""Topic, partition, and the id of the topic: a deleted topic is another one than the next of its name."""


class _Batch(NamedTuple):
    """A committed batch."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    checksum: int


_Seen = tuple[PartitionLog, bool, int, int, int]
"""What was seen of a replica last: its log, whether it leads, leader epoch, high watermark and end offset."""


class ReplicaChecks:
    """The committed records of all partitions, and what was seen of their replicas."""

    def __init__(self, world: World, tree: MemoryTree, brokers: list[SimulatedBroker]) -> None:
        self._world = world
        self._tree = tree
        self._brokers = brokers
        self._leaders: dict[tuple[Key, int], int] = {}
        self._committed: dict[Key, dict[int, _Batch]] = {}
        """The committed batches by base offset."""
        self._ends: dict[Key, int] = {}
        self._seen: dict[tuple[int, Key], _Seen] = {}
        self._looked_at: dict[Partition, _Seen] = {}
        """The same by partition, which is found faster."""
        self._checked: dict[tuple[int, Key], tuple[PartitionLog, int]] = {}
        """Up to where the records of a log were compared."""
        self._decode = cache(znodes.decode_state)
        self._decode_topic = cache(znodes.decode_topic)
        world.after_each.append(self.look)

    def committed_end(self, key: Key) -> int:
        """The offset after the last committed record."""
        return self._ends.get(key, 0)

    def look(self) -> None:
        """Look at the replicas of the broker that ran."""
        ran = self._world.ran
        for broker in self._brokers:
            if broker.loop is ran and broker.core is not None and broker.is_serving and not broker.lost_power:
                self._look_at(broker)

    def _look_at(self, broker: SimulatedBroker) -> None:
        assert broker.core is not None
        for partition in broker.core.replicas:
            log, role = partition.log, partition.replication
            now = (log, role.leads, role.leader_epoch, log.high_watermark, log.log_end_offset)
            if self._looked_at.get(partition) == now:
                continue
            key = broker.node_id, self._key(partition)
            if self._seen.get(key) != now:
                self._changed(broker, partition)
            self._seen[key] = self._looked_at[partition] = now

    def _key(self, partition: Partition) -> Key:
        name, index = partition.topic_partition
        # A power cut may have taken the file with the id; the broker writes it again.
        return name, index, partition.log.topic_id or self.topic_id(name)

    def _changed(self, broker: SimulatedBroker, partition: Partition) -> None:
        key, role, log = self._key(partition), partition.replication, partition.log
        self._world.note(
            broker.host,
            "leads" if role.leads else "follows",
            f"{key[0]}-{key[1]}",
            *(role.leader_epoch, log.high_watermark, log.log_end_offset),
        )
        if role.leads:
            leader = self._leaders.setdefault((key, role.leader_epoch), broker.node_id)
            if leader != broker.node_id:
                self._world.failed(
                    f"{broker.host} and broker-{leader} both lead {key} in epoch {role.leader_epoch}"
                )
        if log.high_watermark > log.log_end_offset:
            self._world.failed(f"{broker.host}: the high watermark of {key} is beyond its end")
        self._compare(broker, key, log, leads=role.leads)
        self.check_isr(key)

    def _compare(self, broker: SimulatedBroker, key: Key, log: PartitionLog, *, leads: bool) -> None:
        """Compare the records below the high watermark with those that are committed."""
        compared, offset = self._checked.get((broker.node_id, key), (log, 0))
        end = log.high_watermark
        if compared is not log or offset > end:
            offset = 0
        committed = self._committed.setdefault(key, {})
        while offset < end:
            read = log.read(offset, READ_AT_ONCE, upper_bound=end)
            if read is None:
                self._world.failed(f"{broker.host} has nothing of {key} from {offset} to {end}")
                return
            data = read.slice.read()
            read.slice.release()
            for _, header in iter_headers(data):
                base, last = header.base_offset, header.base_offset + header.last_offset_delta + 1
                batch = _Batch(base, last, header.partition_leader_epoch, header.crc)
                there = committed.get(base)
                if there is None and base >= self.committed_end(key):
                    committed[base] = batch
                    self._ends[key] = last
                elif there != batch:
                    self._world.failed(f"{broker.host} has {batch} in {key}, where {there} was committed")
                    return
            offset = read.end_offset
        self._checked[broker.node_id, key] = log, end

    def check_isr(self, key: Key) -> None:
        """Check that each live broker in the ISR has what is committed."""
        isr = self.isr(key)
        end = self.committed_end(key)
        for broker in self._brokers:
            if (
                broker.node_id in isr
                and broker.core is not None
                and broker.is_serving
                and not broker.lost_power
            ):
                log = broker.core.logs.logs.get(key[:2])  # type: ignore[call-overload]
                own = 0 if log is None or log.topic_id not in (None, key[2]) else log.log_end_offset
                if own < end:
                    self._world.failed(
                        f"{broker.host} is in the ISR {isr} of {key} and ends at {own}; {end} is committed"
                    )

    def isr(self, key: Key) -> tuple[int, ...]:
        """The ISR in the metadata tree.

        It is empty if the partition is not there, or its topic is deleted.
        """
        name, index, topic_id = key
        path = znodes.partition_state_path(name, index)
        node = self._tree.read(path)
        return () if node is None or self.topic_id(name) != topic_id else self._decode(path, node.data).isr

    def leader(self, partition: tuple[str, int]) -> int:
        """The leader in the metadata tree; NO_LEADER if the partition is not there."""
        path = znodes.partition_state_path(*partition)
        node = self._tree.read(path)
        return NO_LEADER if node is None else self._decode(path, node.data).leader

    def topic_id(self, name: str) -> bytes | None:
        """The id of a topic in the metadata tree; None if it is not there, or about to be deleted."""
        path = znodes.topic_path(name)
        node = self._tree.read(path)
        if node is None or self._tree.read(znodes.delete_topic_path(name)) is not None:
            return None
        return self._decode_topic(path, node.data)[0]
