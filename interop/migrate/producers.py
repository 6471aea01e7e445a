"""Producer state as clients see it: the producers that wrote before the migration."""

from __future__ import annotations

import time
from pathlib import Path

from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import BatchHeader, TimestampType, iter_headers, stamp_batch
from kafkapy.storage.log.producer_snapshots import decode_snapshot
from tests.network.raw_client import RawClient

_OF_TODAY = ("append-time", "compacted", "tail", "transactions")


def check_duplicates_are_known(bootstrap_servers: str, data: Path) -> int:
    """Send the last batch of each idempotent producer again; return how many there were.

    The broker must answer with the offset that the batch already has.
    """
    checked = 0
    with RawClient(bootstrap_servers) as client:
        for folder in sorted(data.iterdir()):
            topic, _, partition = folder.name.rpartition("-")
            if not folder.is_dir() or topic.startswith("__") or not partition.isdecimal():
                continue
            for header, batch in _last_batches(folder).values():
                stamp_batch(batch, base_offset=0, leader_epoch=-1)  # as the client sent it
                sent = PartitionProduceData(index=int(partition), records=bytes(batch))
                request = ProduceRequest(
                    acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[sent])]
                )
                ((answer,),) = (each.partition_responses for each in client.ask(request, 7).responses)
                assert answer.error_code == ErrorCode.NONE, (folder.name, header, answer)
                assert answer.base_offset == header.base_offset, (folder.name, header, answer)
                checked += 1
    return checked


def check_new_producer_id_is_unused(bootstrap_servers: str, data: Path) -> None:
    """Check that a new producer gets an id that no record has."""
    used = {
        header.producer_id for path in data.glob("*/*.log") for _, header in iter_headers(path.read_bytes())
    }
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    with RawClient(bootstrap_servers) as client:

        def new_id() -> int | None:
            answer = client.ask(request, 4)
            return answer.producer_id if answer.error_code == ErrorCode.NONE else None

        # The first request fails until the broker has a block of ids.
        assert (wait_until(new_id) or 0) > max(used)


def producer_states(data: Path) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return the producers in the newest snapshot of each partition, after a clean stop.

    A producer has an epoch, a last sequence, a last offset, a coordinator epoch and the first offset of an
    open transaction. Only topics with records of today count: when Kafka recovers a log, it takes the age of
    the last record for that of the producer.
    """
    states: dict[str, dict[int, tuple[int, ...]]] = {}
    for folder in sorted(path for topic in _OF_TODAY for path in data.glob(f"{topic}-[0-9]")):
        newest = max(folder.glob("*.snapshot"), default=None)
        found = {} if newest is None else decode_snapshot(newest.read_bytes())
        states[folder.name] = {
            producer_id: (
                entry.epoch,
                entry.last_sequence,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for producer_id, entry in found.items()
        }
    return states


def _last_batches(folder: Path) -> dict[int, tuple[BatchHeader, bytearray]]:
    """Return the last batch of each producer that is not transactional and wrote today.

    Producers of yesterday may have expired (producer.id.expiration.ms).
    """
    yesterday = (time.time() - 86_400) * 1000
    last: dict[int, tuple[BatchHeader, bytearray]] = {}
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if header.producer_id < 0 or not header.record_count or header.is_transactional:
                continue
            if header.max_timestamp < yesterday:
                last.pop(header.producer_id, None)
            elif header.timestamp_type is TimestampType.CREATE_TIME:  # clients may send no other
                last[header.producer_id] = header, bytearray(data[position : position + header.size])
    return last
