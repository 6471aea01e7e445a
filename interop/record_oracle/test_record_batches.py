"""Apache Kafka's own classes read the batches that we build, and we read theirs."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import program_command
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.record_walker import InvalidRecordError, walk_batch
from kafkapy.protocol.records import Record, build_batch, crc_is_valid, decode_records, read_header

pytestmark = pytest.mark.jvm

CODECS = list(Compression)
LIMIT = 1 << 26


class RecordOracle:
    """RecordOracle.java on a pipe."""

    def __init__(self) -> None:
        command = program_command(Path(__file__).with_name("RecordOracle.java"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *question: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(question) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@pytest.fixture(scope="module")
def oracle() -> Iterator[RecordOracle]:
    with skipped_without_jars():
        running = RecordOracle()
    yield running
    running.close()


def show(records: list[Record]) -> str:
    """Records in the words of RecordOracle.java."""

    def field(value: bytes | None) -> str:
        return "-" if value is None else value.hex()

    return " ".join(
        f"{r.offset},{r.timestamp},{field(r.key)},{field(r.value)},"
        + ";".join(f"{name.encode().hex()}:{field(value)}" for name, value in r.headers)
        for r in records
    )


def some_records(source: random.Random) -> list[Record]:
    def field() -> bytes | None:
        size = source.choice([None, 0, 1, 63, 64, 300, 20_000])
        if size is None:
            return None
        return source.randbytes(size) if source.random() < 0.5 else (b"a line of text, " * size)[:size]

    return [
        Record(
            timestamp=1_700_000_000_000 + source.randrange(-5000, 5000),
            key=field(),
            value=field(),
            headers=[
                (source.choice(["", "h", "é", "日本", "😀"]), field())
                for _ in range(source.choice([0, 0, 3]))
            ],
        )
        for _ in range(source.choice([1, 2, 40]))
    ]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_kafka_reads_what_we_build_and_builds_what_we_read(codec: Compression, oracle: RecordOracle) -> None:
    source = random.Random(codec)
    for _ in range(50):
        batch = build_batch(some_records(source), compression=codec)
        assert oracle.ask("read", batch.hex()) == show(decode_records(batch))
        for other in CODECS:
            built = bytes.fromhex(oracle.ask("write", other.name.lower(), batch.hex()))
            header = read_header(built)
            assert header.size == len(built)
            assert header.compression is other
            assert crc_is_valid(built, 0, header)
            assert show(decode_records(built)) == show(decode_records(batch))
            summary = walk_batch(built, 0, header, max_decompressed=LIMIT)
            assert summary.record_count == header.record_count
            assert summary.max_timestamp == header.max_timestamp


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Compression.GZIP, 1),
        (Compression.GZIP, 9),
        (Compression.LZ4, 1),
        (Compression.LZ4, 17),
        (Compression.ZSTD, -131072),
        (Compression.ZSTD, 22),
    ],
)
def test_kafka_reads_every_level(codec: Compression, level: int, oracle: RecordOracle) -> None:
    batch = build_batch(some_records(random.Random(level)), compression=codec, level=level)
    assert oracle.ask("read", batch.hex()) == show(decode_records(batch))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_kafka_reads_every_batch_that_passes_the_walker(codec: Compression, oracle: RecordOracle) -> None:
    source = random.Random(codec + 10)
    passed = refused = 0
    for _ in range(400):
        batch = build_batch(some_records(source)[:2], compression=codec)
        for _ in range(source.choice([1, 1, 3])):
            at = source.randrange(61, len(batch) if codec else min(len(batch), 61 + 40))
            batch[at] = source.choice([0, 1, 0x80, 0xFF, batch[at] ^ 1 << source.randrange(8)])
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
        try:
            walk_batch(batch, 0, read_header(batch), max_decompressed=LIMIT)
        except InvalidRecordError:
            refused += 1
            continue
        passed += 1
        assert oracle.ask("read", batch.hex()) == show(decode_records(batch))
    assert passed
    assert refused
