"""kafkapy dump-log prints what kafka-dump-log prints, line for line, about the same files."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from interop.dump_log.judge import dump, dump_problems
from interop.dump_log.kafka_directories import KafkaDirectories
from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.tools.dump_log.command import dump_log

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def ours(files: Iterable[Path], *options: str, code: int = 0) -> list[str]:
    result = CliRunner().invoke(dump_log, [*options, *map(str, files)])
    assert result.exit_code == code, result.output
    # Kafka says so of offset indexes only.
    return [line for line in result.output.splitlines() if line != "is empty"]


def theirs(files: Sequence[Path], *options: str) -> list[str]:
    lines = []
    for line in dump(*files, options=options).splitlines():
        if line.endswith(".index is empty."):
            continue
        # Two of the control records are printed without the colon that the others have.
        lines.append(re.sub(r" (Snapshot(?:Header|Footer)) \{", r" \1: {", line))
    return lines


def test_batches_and_records_of_all_topics(kafka_4: KafkaDirectories) -> None:
    files = sorted(kafka_4.stopped.glob("*-*/*.log")) + sorted(kafka_4.killed.glob("*-*/*.log"))
    lines = ours(files, "--print-data", "--decoder", "none")
    assert lines == theirs(files, "--print-data-log")
    text = "\n".join(lines)
    for shown in ("gzip", "snappy", "lz4", "zstd", "LogAppendTime", "endTxnMarker: ABORT", "LeaderChange"):
        assert shown in text, shown
    for shown in ("endTxnMarker: COMMIT", "isTransactional: true", "OptionalLong[", "[trace,empty]", "ünï"):
        assert shown in text, shown


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_indexes_and_producer_snapshots(kafka_4: KafkaDirectories, suffix: str) -> None:
    files = sorted(kafka_4.stopped.glob(f"*-*/*.{suffix}"))
    lines = ours(files)
    assert len(lines) > len(files)
    assert lines == theirs(files)


@pytest.mark.parametrize(
    ("pattern", "option"),
    [
        ("__consumer_offsets-*/*.log", "--offsets-decoder"),
        ("__transaction_state-*/*.log", "--transaction-log-decoder"),
        ("__cluster_metadata-0/*.log", "--cluster-metadata-decoder"),
        ("__cluster_metadata-0/*.checkpoint", "--cluster-metadata-decoder"),
        ("bootstrap.checkpoint", "--cluster-metadata-decoder"),
    ],
)
def test_records_of_the_brokers_own_topics(kafka_4: KafkaDirectories, pattern: str, option: str) -> None:
    files = sorted(kafka_4.stopped.glob(pattern)) + sorted(kafka_4.killed.glob(pattern))
    lines = ours(files, "--print-data")
    assert any("payload: {" in line for line in lines)
    assert lines == theirs(files, option)


def test_messages_of_old_clients(tmp_path: Path) -> None:
    """Apache Kafka 4 writes none any more, and reads them."""
    files = []
    records = [Record(offset=n, timestamp=1000 + n, key=b"k", value=b"value %d" % n) for n in range(5)]
    for magic in (0, 1):
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
            folder = tmp_path / f"{magic}-{codec.name.lower()}-0"
            folder.mkdir()
            files.append(folder / f"{0:020d}.log")
            files[-1].write_bytes(build_message_set(records, magic, compression=codec))
    # A stray brace ends these lines there.
    expected = [re.sub(r"(crc: [0-9]+)\}", r"\1", line) for line in theirs(files, "--print-data-log")]
    assert ours(files, "--print-data") == expected


def test_keys_and_values_that_are_no_utf8(tmp_path: Path) -> None:
    """Their bytes are the first and the last of each class."""
    chance = random.Random(9)
    octets = bytes.fromhex("41 80 8f 90 9f a0 bf c1 c2 df e0 e1 ec ed ee ef f0 f1 f4 f5 ff")
    keys = [bytes(chance.choices(octets, k=chance.randint(1, 6))) for _ in range(2000)]
    path = tmp_path / "events-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(build_batch([Record(timestamp=1, key=key, value=b"\xed" + key) for key in keys]))
    assert ours([path], "--print-data") == theirs([path], "--print-data-log")


def test_damaged_segments(kafka_4: KafkaDirectories, tmp_path: Path) -> None:
    whole = (kafka_4.stopped / "append-time-0" / f"{0:020d}.log").read_bytes()
    value = whole.index(b"none 0")  # how many records a batch has is chance
    files = []
    for name, data in {
        "flipped": whole[:value] + bytes([whole[value] ^ 1]) + whole[value + 1 :],
        "torn": whole[:-13],
        "torn-header": whole + whole[:9],
    }.items():
        folder = tmp_path / f"{name}-0"
        folder.mkdir()
        files.append(folder / f"{0:020d}.log")
        files[-1].write_bytes(data)
    lines = ours(files, code=1)
    assert sum(line.endswith("isvalid: false") for line in lines) == 1
    # Ours says what is wrong with them, too.
    shown = [line.partition(": ")[0] if line.startswith("Found ") else line for line in lines]
    assert sum(line.startswith("Found ") for line in shown) == 2
    assert shown == theirs(files)


def test_indexes_that_contradict_their_log(kafka_4: KafkaDirectories, tmp_path: Path) -> None:
    folder = tmp_path / "codecs-0"
    shutil.copytree(kafka_4.stopped / "codecs-0", folder)
    index = max(folder.glob("*.index"), key=lambda each: each.stat().st_size)
    assert dump_problems(index, options=["--verify-index-only"]) == ""
    assert ours([index, index.with_suffix(".timeindex")], "--verify")[1::2] == ["passed sanity check"] * 2
    for path, position in ((index, 3), (index.with_suffix(".timeindex"), 7)):
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
    [entry] = re.findall(
        r"Index offset: (\d+), log offset: (\d+)", dump_problems(index, options=["--verify-index-only"])
    )
    assert f"indexOffset: {entry[0]}" in ours([index], "--verify", code=1)[1]
    assert f"logOffset: {entry[1]}" in ours([index], "--verify", code=1)[1]
    time_index = index.with_suffix(".timeindex")
    problems = dump_problems(time_index, options=["--verify-index-only"])
    [entry] = re.findall(r"Index timestamp: (\d+), log timestamp: (\d+)", problems)
    told = ours([time_index], "--verify", code=1)[1]
    assert f"indexTimestamp: {entry[0]} logTimestamp: {entry[1]}" in told
