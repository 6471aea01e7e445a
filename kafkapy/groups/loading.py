"""What a partition of `__consumer_offsets` says in the end, when all of it has been read.

Only the last record of a key counts, so that records are folded by their undecoded key; a few survive
and are decoded. Offsets that Apache Kafka committed in a transaction count from the transaction's commit
marker on, unless a later record of the same key is there already (its order in the log decides, as
compaction may have removed records in between); without a marker, or with an abort marker, they do not
count.

What cannot be read is logged and left out, whatever is wrong with it: one odd record must not take the groups
of the whole partition away. (Apache Kafka's loader gives up the partition.)

Runs in a worker thread: nothing here is shared. Source: Apache Kafka's CoordinatorLoaderImpl, the replay
methods of GroupMetadataManager and OffsetMetadataManager.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kafkapy.groups.group import Group, GroupState
from kafkapy.groups.member import Member
from kafkapy.groups.offsets import CommittedOffset
from kafkapy.groups.records import OffsetKey, decode_group_value, decode_key, decode_offset_value
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.errors import DecodeError, KafkaError
from kafkapy.protocol.messages.group_records import GroupMetadataValue
from kafkapy.protocol.records import BatchHeader, Record, decode_records, iter_headers
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.files import is_exhausted

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedPartition:
    """The groups of a partition and their offsets."""

    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class PartitionFold:
    """Folds the batches of a partition, in order of the log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._latest: dict[bytes, tuple[int, bytes]] = {}
        """Offset in the log and value of the last record of each key; none for a tombstone."""
        self._open: dict[int, dict[bytes, tuple[int, bytes]]] = {}
        """The same for transactions that have not ended, by producer id."""

    def add(self, batches: bytes) -> None:
        """Take in whole batches. Raises DecodeError where the bytes are not batches."""
        view = memoryview(batches)
        for position, header in iter_headers(view):
            try:
                self._add(header, decode_records(view, position, header))
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "%s: offsets %d to %d cannot be read and are skipped: %s",
                    *(self._name, header.base_offset, header.last_offset, describe(error)),
                )

    def _add(self, header: BatchHeader, records: list[Record]) -> None:
        if header.is_control:
            for record in records:
                self._end_transaction(header.producer_id, parse_control_record_key(record.key))
            return
        target = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._latest
        for record in records:
            if record.key is None:
                logger.error("%s: offset %d has no key and is skipped", self._name, record.offset)
            elif record.value is None:
                self._latest.pop(record.key, None)
                for pending in self._open.values():
                    pending.pop(record.key, None)
            else:
                target[record.key] = (record.offset, record.value)

    def _end_transaction(self, producer_id: int, control: int) -> None:
        pending = self._open.pop(producer_id, {})
        if control == ControlType.COMMIT:
            for key, (offset, value) in pending.items():
                latest = self._latest.get(key)
                if latest is None or latest[0] < offset:
                    self._latest[key] = (offset, value)

    def result(self) -> LoadedPartition:
        """What all batches together say. A record that cannot be read is logged and left out."""
        loaded = LoadedPartition()
        for raw_key, (offset, value) in self._latest.items():
            try:
                key = decode_key(raw_key)
                if isinstance(key, OffsetKey):
                    committed = decode_offset_value(value)
                    loaded.offsets.setdefault(key.group_id, {})[key.partition] = committed
                elif key is not None:
                    loaded.groups[key.group_id] = decode_group_value(value)
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "%s: the record at offset %d cannot be read: %s", self._name, offset, describe(error)
                )
        return loaded


def describe(error: Exception) -> str:
    """What to log of an error of any type."""
    known = isinstance(error, (KafkaError, DecodeError, OSError))
    return str(error) if known else f"{type(error).__name__}: {error}"


def restore_group(group_id: str, value: GroupMetadataValue) -> Group:
    """The group that a record describes: Stable if it has members, else Empty.

    Raises:
        DecodeError: members without a protocol, or two of one id.
    """
    group = Group(group_id, value.current_state_timestamp)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.members and (value.protocol is None or not value.protocol_type):
        raise DecodeError(f"group {group_id} has members but no protocol")
    for each in value.members:
        if each.member_id in group.members or each.group_instance_id in group.static_members:
            raise DecodeError(f"group {group_id} has member {each.member_id} twice")
        assert value.protocol is not None
        group.add(
            Member(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=(
                    each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout
                ),
                session_timeout_ms=each.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol, bytes(each.subscription)),),
                assignment=bytes(each.assignment),
            )
        )
    if group.members:
        group.state = GroupState.STABLE
        if value.leader in group.members:
            group.leader = value.leader
    group.compute_subscription()
    return group
