"""`kafkapy dump-log` on files that were made here.

interop/dump_log compares it with kafka-dump-log.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkapy.protocol.codec import encode
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kafkapy.protocol.messages.metadata_records import TopicRecord
from kafkapy.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kafkapy.protocol.records import Compression, Record, TimestampType, build_batch, read_header
from kafkapy.tools.dump_log.command import dump_log
from tests.storage.descriptors import open_below
from tests.storage.log_harness import Logs
from tests.tools.check.directories import files, fill, flip, stopped

TOPIC_ID = bytes(range(16))


def run(*arguments: object, code: int = 0) -> list[str]:
    result = CliRunner().invoke(dump_log, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.output.splitlines()


def facts(*arguments: object, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("--json", *arguments, code=code)]


def of_kind(kind: str, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [fact for fact in found if fact["kind"] == kind]


def segment(root: Path, *batches: bytes | bytearray, topic: str = "events") -> Path:
    folder = root / f"{topic}-0"
    folder.mkdir(exist_ok=True)
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


# --- batches and records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_and_its_records(tmp_path: Path, codec: Compression) -> None:
    records = [
        Record(timestamp=1000, key=b"k", value=b"one", headers=[("h", b"\xff"), ("g", None)]),
        Record(timestamp=3000, key=None, value=None),
    ]
    batch = build_batch(
        records,
        base_offset=7,
        compression=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=10,
        leader_epoch=2,
    )
    path = segment(tmp_path, batch)
    crc = read_header(batch).crc
    assert run("--print-data", path) == [
        f"Dumping {path}",
        "Log starting offset: 0",
        "baseOffset: 7 lastOffset: 8 count: 2 baseSequence: 10 lastSequence: 11 producerId: 5 "
        "producerEpoch: 1 partitionLeaderEpoch: 2 isTransactional: false isControl: false "
        "deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: 3000 size: {len(batch)} magic: 2 compresscodec: {codec.name.lower()} "
        f"crc: {crc} isvalid: true",
        "| offset: 7 CreateTime: 1000 keySize: 1 valueSize: 3 sequence: 10 headerKeys: [h,g] "
        "key: k payload: one",
        "| offset: 8 CreateTime: 3000 keySize: -1 valueSize: -1 sequence: 11 headerKeys: []",
    ]
    found = of_kind("record", facts("--print-data", path))
    assert found[0]["headers"] == [{"name": "h", "value": {"base64": "/w=="}}, {"name": "g"}]
    assert found[0]["timestampType"] == "CreateTime"
    assert "payload" not in found[1]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"\xff\xc2", "\ufffd\ufffd"),
        (b"\xe1\x80A", "\ufffdA"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xbf\x80\x80", "\ufffd\ufffd"),
        (b"\xed\xa0A\xed\xed\xa0\xed\x9f\xbf", "\ufffdA\ufffd\ufffd\ud7ff"),
    ],
)
def test_what_is_no_utf8_is_shown_as_java_decodes_it(tmp_path: Path, key: bytes, shown: str) -> None:
    path = segment(tmp_path, build_batch([Record(key=key, value=b"x")]))
    assert f" key: {shown} payload: x" in run("--print-data", path)[-1]


def test_shallow_shows_no_records(tmp_path: Path) -> None:
    path = segment(tmp_path, build_batch([Record(value=b"x")]))
    assert [fact["kind"] for fact in facts(path)] == ["file", "batch"]


def test_log_append_time_markers_and_a_delete_horizon(tmp_path: Path) -> None:
    stamped = build_batch([Record(timestamp=5, value=b"x")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    marker = build_batch(
        [Record(timestamp=6, key=control_record_key(ControlType.ABORT), value=end_txn_marker_value(3))],
        base_offset=1,
        producer_id=1,
        producer_epoch=0,
        transactional=True,
        control=True,
        delete_horizon=77,
    )
    lines = run("--deep", segment(tmp_path, stamped, marker))
    assert "LogAppendTime: 5" in lines[2]
    assert lines[3].startswith("| offset: 0 LogAppendTime: 5 ")
    assert "deleteHorizonMs: OptionalLong[77]" in lines[4]
    assert lines[5].endswith("headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 3")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_messages_of_old_clients(tmp_path: Path, magic: int, codec: Compression) -> None:
    records = [Record(offset=3 + n, timestamp=100 + n, key=b"k", value=b"v%d" % n) for n in range(3)]
    found = facts("--print-data", segment(tmp_path, build_message_set(records, magic, compression=codec)))
    shown = of_kind("record", found)
    assert [(each["offset"], each["payload"]) for each in shown] == [(3, "v0"), (4, "v1"), (5, "v2")]
    assert [each["timestamp"] for each in shown] == ([100, 101, 102] if magic else [-1] * 3)
    batches = of_kind("batch", found)
    assert len(batches) == (1 if codec else 3)
    assert all(each["isvalid"] and each["magic"] == magic for each in batches)
    assert batches[0]["compresscodec"] == codec.name.lower()


def test_a_range_of_offsets(tmp_path: Path) -> None:
    batches = [build_batch([Record(value=b"x")] * 5, base_offset=5 * n) for n in range(6)]
    path = segment(tmp_path, *batches)

    def shown(text: str) -> tuple[list[int], list[int]]:
        found = facts("--deep", "--offsets", text, path)
        batch_offsets = [each["baseOffset"] for each in of_kind("batch", found)]
        return batch_offsets, [each["offset"] for each in of_kind("record", found)]

    assert shown("8-12") == ([5, 10], [8, 9, 10, 11, 12])
    assert shown("27-") == ([25], [27, 28, 29])
    assert shown("-1") == ([0], [0, 1])
    assert shown("13") == ([10], [13])


# --- damage -------------------------------------------------------------------------------------------------


def test_a_torn_tail_is_one_line(tmp_path: Path) -> None:
    good, torn = build_batch([Record(value=b"x")]), build_batch([Record(value=b"y" * 50)], base_offset=1)
    path = segment(tmp_path, good, torn[:70])
    found = facts("--deep", path, code=1)
    assert [fact["kind"] for fact in found] == ["file", "batch", "record", "error"]
    assert found[-1]["position"] == len(good)
    assert found[-1]["bytes"] == 70
    assert f"Found 70 invalid bytes at the end of {path.name}" in run(path, code=1)[-1]


def test_a_flipped_bit_makes_a_batch_invalid(tmp_path: Path) -> None:
    batches = [build_batch([Record(value=b"x" * 20)], base_offset=n) for n in range(3)]
    path = segment(tmp_path, *batches)
    flip(path, len(batches[0]) + 70)
    assert [each["isvalid"] for each in of_kind("batch", facts(path))] == [True, False, True]
    found = facts("--verify", path, code=1)
    assert [each["baseOffset"] for each in of_kind("batch", found)] == [1]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_payload_that_does_not_decompress_is_one_line(tmp_path: Path, codec: Compression) -> None:
    batch = build_batch([Record(value=b"x" * 200)], compression=codec)
    batch[61:71] = b"\xff" * 10
    found = facts("--deep", segment(tmp_path, batch), code=1)
    assert [fact["kind"] for fact in found] == ["file", "batch", "error"]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"\xff" * 100, bytes(range(256)), b"\0" * 8 + b"\x7f" * 60]
)
@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000000.snapshot",
        "00000000000000000010-0000000001.checkpoint",
        "leader-epoch-checkpoint",
        "replication-offset-checkpoint",
        "partition.metadata",
        "meta.properties",
        "quorum-state",
        ".kafka_cleanshutdown",
        "damaged-offsets",
    ],
)
@pytest.mark.parametrize("options", [(), ("--verify",), ("--print-data", "--json")])
def test_rubbish_is_no_traceback(tmp_path: Path, content: bytes, name: str, options: Sequence[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = CliRunner().invoke(dump_log, [*options, str(path)])
    assert result.exit_code in (0, 1)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


# --- the other files ----------------------------------------------------------------------------------------


def test_a_whole_directory_in_reading_order(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    found = facts(path.parent)
    shown = [Path(fact["file"]).name for fact in of_kind("file", found)]
    first = [each for each in shown if each.startswith("0" * 20)]
    assert first == [f"{0:020d}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex")]
    assert {fact["type"] for fact in of_kind("file", found)} >= {
        *("log", "index", "timeindex", "txnindex", "snapshot", "leader-epochs"),
        *("offset-checkpoint", "partition-metadata", "clean-shutdown"),
    }
    assert of_kind("epoch", found)[1]["epoch"] == 1
    assert of_kind("properties", found)[-1]["topicId"] == "AAECAwQFBgcICQoLDA0ODw"
    [aborted, *_] = of_kind("abortedTxn", found)
    assert aborted["producerId"] == 9
    assert of_kind("producer", found)[0]["producerId"] == 9
    ends = {fact["offset"] for fact in of_kind("offset", found)}
    assert len(ends) == 1  # recovery point and high watermark
    batches = [fact for fact in of_kind("batch", found) if "events-0" in fact["file"]]
    assert batches[-1]["lastOffset"] + 1 == ends.pop()


def test_indexes_that_are_right_pass_and_wrong_entries_are_told(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    assert not [fact for fact in facts("--verify", path) if fact["kind"] in ("mismatch", "error")]
    index = max(files(path, ".index"), key=lambda each: each.stat().st_size)
    flip(index, 7, 0x04)
    [wrong] = of_kind("mismatch", facts("--verify", index, code=1))
    assert wrong["indexOffset"] >= 0
    flip(index, 7, 0x04)
    flip(index, 3, 0x01)
    [wrong] = of_kind("mismatch", facts("--verify", index, code=1))
    assert wrong["logOffset"] == wrong["indexOffset"] ^ 1
    assert open_below(tmp_path) == []


def test_what_is_preallocated_is_no_entry(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs)
    logs.crash()
    index = files(logs.path, ".index")[-1] if files(logs.path, ".index") else None
    found = facts(logs.path)
    assert all(fact["position"] > 0 for fact in of_kind("index", found))
    assert index is None or index.stat().st_size > 0


# --- the broker's own topics --------------------------------------------------------------------------------


def with_version(version: int, data: bytes) -> bytes:
    return version.to_bytes(2, "big") + data


def test_committed_offsets_are_decoded_by_the_name_of_the_topic(tmp_path: Path) -> None:
    key = with_version(1, encode(OffsetCommitKey(group="g", topic="t", partition=2), 0))
    value = with_version(3, encode(OffsetCommitValue(offset=17, metadata="m", commit_timestamp=5), 3))
    path = segment(
        tmp_path,
        build_batch(
            [Record(key=key, value=value), Record(key=key), Record(key=b"\x7f\xff"), Record(value=b"?")]
        ),
        topic="__consumer_offsets",
    )
    one, two, three, four = of_kind("record", facts("--print-data", path))
    assert one["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 2}}
    assert one["payload"]["version"] == "3"
    assert one["payload"]["data"]["offset"] == 17
    assert two["payload"] == "<DELETE>"
    assert three["key"] == "Unknown record type 32767 at offset 2, skipping."
    assert four["key"].startswith("Error at offset 3, skipping.")
    [plain, *_] = of_kind("record", facts("--print-data", "--decoder", "none", path))
    assert plain["keySize"] == len(key)
    assert "type" not in plain["key"]


def test_transactions_are_decoded(tmp_path: Path) -> None:
    key = with_version(0, encode(TransactionLogKey(transactional_id="orders"), 0))
    value = with_version(0, encode(TransactionLogValue(producer_id=4, transaction_status=1), 0))
    path = segment(tmp_path, build_batch([Record(key=key, value=value)]), topic="anything")
    [record] = of_kind("record", facts("--print-data", "--decoder", "transactions", path))
    assert record["key"]["data"] == {"transactionalId": "orders"}
    assert record["payload"]["data"]["producerId"] == 4


def test_metadata_records_are_decoded(tmp_path: Path) -> None:
    value = bytes([1, 2, 0]) + encode(TopicRecord(name="events", topic_id=TOPIC_ID), 0)
    path = segment(
        tmp_path, build_batch([Record(value=value), Record(value=b"\1\x7f")]), topic="__cluster_metadata"
    )
    good, bad = of_kind("record", facts("--print-data", path))
    assert good["payload"] == {
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": {"name": "events", "topicId": "AAECAwQFBgcICQoLDA0ODw"},
    }
    assert bad["payload"].startswith("Error at 1, skipping.")


# --- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.log"], 1),
        (["/dev/null"], 1),
        (["--offsets", "x", "a"], 2),
        (["--offsets", "9-3", "a"], 2),
        ([], 2),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, arguments: list[str], code: int) -> None:
    command = [sys.executable, "-m", "kafkapy", "dump-log", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    batches = b"".join(bytes(build_batch([Record(value=b"x" * 50)], base_offset=n)) for n in range(3000))
    path = segment(tmp_path, batches)
    command = f"{sys.executable} -m kafkapy dump-log --deep {path} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"Dumping {path}\n"
    assert done.stderr == ""
