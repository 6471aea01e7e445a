"""Segments of brokers before Kafka 0.11 become record batches.

They have the same records at the same offsets.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkapy.inprocess import Broker
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.records import Record, TimestampType, build_batch, decode_records, iter_headers
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.old_segments import convert_segment
from tests.tools.migrate.harness import files_of, run
from tests.tools.migrate.test_import_plan import ID, make_directory, plan

START = 1_500_000_000_000


def records(*offsets: int, magic: int = 1, timestamp: int | None = None) -> list[Record]:
    """A record for each offset, one of them with neither key nor value."""
    made = []
    for offset in offsets:
        at = -1 if magic == 0 else START + offset if timestamp is None else timestamp
        empty = offset % 7 == 3
        made.append(Record(offset, at, None if empty else b"k%d" % offset, None if empty else b"v" * offset))
    return made


def convert(tmp_path: Path, data: bytes) -> bytes:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    target.unlink(missing_ok=True)
    written = convert_segment(ReadOnlyFiles(), str(source), FileSystem(), str(target))
    assert written == target.stat().st_size
    return target.read_bytes()


def records_in(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (each.offset, each.timestamp, each.key, each.value)
        for position, header in iter_headers(data)
        for each in decode_records(memoryview(data)[position : position + header.size], 0, header)
    ]


def expected(*groups: list[Record]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(each.offset, each.timestamp, each.key, each.value) for group in groups for each in group]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_records_stay_where_and_what_they_were(tmp_path: Path, magic: int, codec: Compression) -> None:
    first, second = records(5, 6, 9, 10, magic=magic), records(20, 21, magic=magic)
    data = build_message_set(first, magic, compression=codec)
    data += build_message_set(second, magic, compression=codec)
    converted = convert(tmp_path, bytes(data))
    assert records_in(converted) == expected(first, second)
    assert {header.compression for _, header in iter_headers(converted)} == {codec}
    assert {header.magic for _, header in iter_headers(converted)} == {2}


def test_log_append_time_stays_that_of_each_message(tmp_path: Path) -> None:
    groups = [records(n, n + 1, timestamp=START + n // 4) for n in range(0, 20, 2)]
    data = b"".join(
        build_message_set(group, 1, timestamp_type=TimestampType.LOG_APPEND_TIME, compression=codec)
        for group, codec in zip(groups, [Compression.NONE, Compression.LZ4] * 5, strict=True)
    )
    converted = convert(tmp_path, data)
    assert records_in(converted) == expected(*groups)
    assert {header.timestamp_type for _, header in iter_headers(converted)} == {TimestampType.LOG_APPEND_TIME}


def test_record_batches_behind_messages_stay_as_they_are(tmp_path: Path) -> None:
    old, new = records(0, 1), records(2, 3)
    batch = bytes(
        build_batch(new, base_offset=2, leader_epoch=4, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    converted = convert(tmp_path, bytes(build_message_set(old, 1)) + batch)
    assert records_in(converted) == expected(old, new)
    assert converted.endswith(batch)


def test_many_messages_become_batches_of_ordinary_size(tmp_path: Path) -> None:
    many = [Record(n, START + n, b"key", b"v" * 100) for n in range(5000)]
    converted = convert(tmp_path, bytes(build_message_set(many, 0)))
    sizes = [header.size for _, header in iter_headers(converted)]
    assert len(records_in(converted)) == 5000
    assert 5 < len(sizes) < 20
    assert max(sizes) < 100_000


@pytest.mark.parametrize("tail", [b"\x00" * 5, b"\xff" * 40, "torn", "rotten"])
def test_what_cannot_be_read_goes_over_as_it_is(tmp_path: Path, tail: bytes | str) -> None:
    good, bad = records(0, 1), bytearray(build_message_set(records(2, 4), 1, compression=Compression.GZIP))
    if tail == "rotten":
        bad[-1] ^= 1
    behind = tail if isinstance(tail, bytes) else bytes(bad[:-3]) if tail == "torn" else bytes(bad)
    converted = convert(tmp_path, bytes(build_message_set(good, 1)) + behind)
    assert converted.endswith(behind)
    assert records_in(converted.removesuffix(behind)) == expected(good)


def test_an_import_converts_them_and_leaves_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = make_directory(tmp_path / "there", t_0=ID), tmp_path / "here"
    first, second, third = records(*range(50)), records(*range(60, 70)), records(70, 71)
    folder = there / "t-0"
    (folder / f"{0:020d}.log").write_bytes(build_message_set(first, 0) + build_message_set(second, 1))
    (folder / f"{0:020d}.index").write_bytes(b"positions that are others now   ")
    (folder / f"{70:020d}.log").write_bytes(build_batch(third, base_offset=70))
    before = files_of(there)
    told = run(capsys, "import", there, here)
    assert "t: messages in format v0 or v1 become record batches; their offsets stay" in told
    assert files_of(there) == before
    with Broker(data_dir=here) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        read = consumer.consume(62, 10)
        consumer.close()
    assert [(each.offset(), each.key(), each.value()) for each in read] == [
        (each.offset, each.key, each.value) for each in (*first, *second, *third)
    ]


def test_an_import_in_place_leaves_such_a_topic_behind(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(build_message_set(records(0, 1), 1))
    found = plan(tmp_path, in_place=True)
    assert not found.cluster.image.topics
    assert found.not_carried == [
        "topic t: it has messages in format v0 or v1; an import into a new directory converts them"
    ]
