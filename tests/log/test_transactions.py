"""What a read_committed reader sees of a log.

It sees nothing of aborted transactions, and nothing after open ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.protocol.records import decode_records, iter_headers
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, write_offsets
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.offline.offline_error import LogSourceError
from tests.log.reading import Transactions, offsets
from tests.storage.log_harness import TP, Logs, read_bytes

SEVERAL_SEGMENTS = LogConfig(segment_bytes=400, index_interval_bytes=100)


def committed(log: PartitionLog) -> list[int]:
    """What a consumer shows of a read_committed fetch.

    This is KafkaConsumer's algorithm, over all of the log.
    """
    end = log.last_stable_offset
    pending = sorted(log.aborted_transactions(log.log_start_offset, end), key=lambda txn: txn.first_offset)
    data = read_bytes(log)
    aborted: set[int] = set()
    found = []
    for position, header in iter_headers(data):
        if header.base_offset >= end:
            break
        while pending and pending[0].first_offset <= header.last_offset:
            aborted.add(pending.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [record.offset for record in decode_records(data, position, header)]
    return found


def uncommitted(log: PartitionLog) -> list[int]:
    data = read_bytes(log)
    return [
        record.offset
        for position, header in iter_headers(data)
        if not header.is_control
        for record in decode_records(data, position, header)
    ]


steps = st.lists(
    st.tuples(st.sampled_from(["write", "plain", "commit", "abort", "roll"]), st.integers(1, 3)), max_size=40
)


@settings(max_examples=150)
@given(steps, st.sampled_from(["running", "stopped", "crashed"]))
def test_any_transactions_show_as_a_consumer_would_see_them(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int]], then: str
) -> None:
    logs = Logs(tmp_path_factory.mktemp("logs"), config=SEVERAL_SEGMENTS)
    logs.log.make_files()
    writer = Transactions(logs.log)
    for step, producer_id in script:
        if step == "write":
            writer.write(producer_id, b"a", b"b")
        elif step == "plain":
            writer.plain(b"c")
        elif step == "roll":
            logs.log.roll()
        elif producer_id in writer.open:
            writer.end(producer_id, abort=step == "abort")
    expected = committed(logs.log), uncommitted(logs.log)
    if then == "stopped":
        logs.stop()
    elif then == "crashed":
        logs.crash()
    assert offsets(logs) == expected[0]
    assert offsets(logs, isolation="read_uncommitted") == expected[1]
    assert offsets(logs, startingOffsets='{"events": {"0": 0}}') == expected[0]


def write_some(logs: Logs) -> None:
    """Offsets 0-1 committed, 3-4 aborted, 6 plain, 7 open, 8 plain."""
    writer = Transactions(logs.log)
    writer.write(1, b"a", b"b")
    writer.end(1, abort=False)
    writer.write(2, b"c", b"d")
    writer.end(2, abort=True)
    writer.plain(b"e")
    writer.write(3, b"f")
    writer.plain(b"g")


def test_an_abort_that_the_index_does_not_know_of_yet_counts(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write_some(logs)
    for path in logs.path.glob("*.txnindex"):
        path.unlink()
    assert offsets(logs) == [0, 1, 6]


def test_an_abort_in_a_closed_segment_is_known_from_its_index(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write_some(logs)
    logs.log.roll()
    assert len(list(logs.path.glob("*.snapshot"))) == 1
    assert offsets(logs) == [0, 1, 6]


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_without_a_good_snapshot_the_log_tells(tmp_path: Path, harm: str) -> None:
    logs = Logs(tmp_path)
    write_some(logs)
    logs.log.roll()
    [snapshot] = logs.path.glob("*.snapshot")
    snapshot.unlink() if harm == "missing" else snapshot.write_bytes(b"\x00\x01garbage")
    assert offsets(logs) == [0, 1, 6]


def test_a_transaction_that_ends_above_the_high_watermark_is_open(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    writer = Transactions(logs.log)
    writer.plain(b"a")
    writer.write(1, b"b", b"c")
    writer.plain(b"d")
    writer.end(1, abort=False)
    path = str(logs.root / "data" / HIGH_WATERMARKS)
    write_offsets(FileSystem(), path, {TP: 4})
    assert offsets(logs) == [0]
    assert offsets(logs, isolation="read_uncommitted") == [0, 1, 2, 3]
    (logs.root / "data" / METADATA_FILE).touch()
    assert offsets(logs) == [0, 1, 2, 3]


def test_a_damaged_transaction_index_is_an_error(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write_some(logs)
    [index] = logs.path.glob("*.txnindex")
    index.write_bytes(b"\x00\x07" + index.read_bytes()[2:])
    with pytest.raises(LogSourceError, match=r"txnindex: unknown version 7: start a broker"):
        offsets(logs)
