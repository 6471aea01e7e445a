"""The codecs read other writers' payloads, and write what others read.

They limit the decompressed size.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import subprocess
import sys
import zlib

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as kafka_python_codec

from kafkapy.protocol import compression
from kafkapy.protocol.compression import (
    Compression,
    DecompressedSizeError,
    compress,
    decompress,
    decompress_chunks,
)
from kafkapy.protocol.errors import DecodeError
from tests.calls import calls_of

CODECS = list(Compression)
REAL = [codec for codec in CODECS if codec]
TEXT = b"".join(b"%d: a line of a log, much like the one before it\n" % i for i in range(20_000))
MIB = 1024 * 1024

payloads = st.binary(max_size=300) | st.builds(
    lambda unit, times: unit * times, st.binary(min_size=1, max_size=50), st.integers(1, 5000)
)


@given(payloads, st.sampled_from(CODECS))
def test_what_is_compressed_decompresses(data: bytes, codec: Compression) -> None:
    assert decompress(codec, compress(codec, data), limit=len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [TEXT, os.urandom(300_000), bytes(3 * MIB)], ids=["text", "noise", "zeros"])
def test_large_payloads_come_in_bounded_chunks(codec: Compression, data: bytes) -> None:
    chunks = list(decompress_chunks(codec, compress(codec, data), limit=len(data)))
    assert b"".join(chunks) == data
    assert 0 < min(map(len, chunks)) <= max(map(len, chunks)) <= 128 * 1024


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, [-1, 1, 9]),
        (Compression.LZ4, [1, 9, 12, 17]),
        (Compression.ZSTD, [-131072, 0, 1, 22]),
        (Compression.SNAPPY, [None]),
    ],
)
def test_every_level_that_kafka_has_can_be_used(codec: Compression, levels: list[int | None]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), limit=len(TEXT)) == TEXT


def test_levels_make_a_difference() -> None:
    assert len(compress(Compression.GZIP, TEXT, 9)) < len(compress(Compression.GZIP, TEXT, 1))
    assert len(compress(Compression.ZSTD, TEXT, 19)) < len(compress(Compression.ZSTD, TEXT, -5))
    assert len(compress(Compression.LZ4, TEXT, 12)) < len(compress(Compression.LZ4, TEXT, 9))


@pytest.mark.parametrize("data", [b"x", TEXT], ids=["byte", "text"])
@pytest.mark.parametrize("other", [kafka_python_codec, aiokafka_codec], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", REAL)
def test_the_python_clients_read_and_write_the_same(codec: Compression, other: object, data: bytes) -> None:
    name = codec.name.lower()
    assert getattr(other, f"{name}_decode")(compress(codec, data)) == data
    assert decompress(codec, getattr(other, f"{name}_encode")(data), limit=len(data)) == data


@pytest.mark.parametrize("codec", REAL)
def test_a_stream_that_ends_early_is_refused(codec: Compression) -> None:
    data = TEXT[:3000] + os.urandom(100)
    whole = compress(codec, data)
    for size in range(len(whole)):
        if codec is Compression.SNAPPY and size == 16:
            continue  # the header of the framing alone is a valid empty stream
        with pytest.raises(DecodeError):
            decompress(codec, whole[:size], limit=len(data))


@pytest.mark.parametrize("codec", [codec for codec in REAL if codec is not Compression.GZIP])
@pytest.mark.parametrize("extra", [b"\x00", b"x", bytes(100), b"garbage" * 20_000])
def test_bytes_after_the_stream_are_refused(codec: Compression, extra: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, compress(codec, TEXT) + extra, limit=10 * len(TEXT))


@pytest.mark.parametrize("codec", REAL)
def test_a_flipped_bit_is_refused_or_harmless(codec: Compression) -> None:
    whole = bytearray(compress(codec, TEXT[:300]))
    for position in range(len(whole)):
        for bit in range(8):
            whole[position] ^= 1 << bit
            with contextlib.suppress(DecodeError):
                assert len(decompress(codec, whole, limit=1000)) <= 1000
            whole[position] ^= 1 << bit


@given(st.binary(max_size=200), st.sampled_from(REAL))
def test_arbitrary_bytes_are_refused_or_decompress(data: bytes, codec: Compression) -> None:
    magic = {
        Compression.GZIP: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
        Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
        Compression.LZ4: lz4.frame.compress(b"")[:7],
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    }[codec]
    for stream in (data, magic + data):
        with contextlib.suppress(DecodeError):
            decompress(codec, stream, limit=MIB)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Compression) -> None:
    whole = compress(codec, TEXT)
    assert decompress(codec, whole, limit=len(TEXT)) == TEXT
    with pytest.raises(DecompressedSizeError):
        decompress(codec, whole, limit=len(TEXT) - 1)


# --- each codec ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_streams_that_follow_each_other_are_one_as_in_java(codec: Compression) -> None:
    parts = [b"first", b"", TEXT, b"last"]
    whole = b"".join(compress(codec, part) for part in parts)
    assert decompress(codec, whole, limit=10**7) == b"".join(parts)


@pytest.mark.parametrize(
    "rest",
    [b"x", b"\0" * 100, gzip.compress(b"", mtime=0)[:17], b"\x1f\x8b" + bytes(30)],
    ids=["byte", "zeros", "cut member", "no member"],
)
def test_bytes_after_a_gzip_stream_are_not_read_as_in_java(rest: bytes) -> None:
    whole = compress(Compression.GZIP, TEXT) + rest
    assert decompress(Compression.GZIP, whole, limit=len(TEXT)) == TEXT


def test_a_second_gzip_member_that_is_broken_is_refused() -> None:
    with pytest.raises(DecodeError, match="ends early"):
        decompress(Compression.GZIP, (2 * compress(Compression.GZIP, TEXT))[:-1], limit=10**7)


def test_a_gzip_member_may_have_a_name_and_a_comment() -> None:
    out = io.BytesIO()
    with gzip.GzipFile("a-file", "wb", fileobj=out) as file:
        file.write(TEXT)
    assert decompress(Compression.GZIP, out.getvalue(), limit=len(TEXT)) == TEXT


def test_zlib_and_raw_deflate_are_no_gzip() -> None:
    with pytest.raises(DecodeError, match="broken gzip"):
        decompress(Compression.GZIP, zlib.compress(TEXT), limit=len(TEXT))


def test_snappy_is_written_in_the_framing_that_java_reads() -> None:
    assert compress(Compression.SNAPPY, b"x")[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def test_raw_snappy_as_librdkafka_writes_it_is_read() -> None:
    assert decompress(Compression.SNAPPY, snappy.compress(TEXT), limit=len(TEXT)) == TEXT


def test_a_writer_with_little_endian_versions_in_the_snappy_framing_is_read() -> None:
    whole = bytearray(compress(Compression.SNAPPY, TEXT))
    whole[8:16] = struct.pack("<ii", 1, 1)
    assert decompress(Compression.SNAPPY, whole, limit=len(TEXT)) == TEXT


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_an_impossible_snappy_block_length_is_refused(size: int) -> None:
    header = compress(Compression.SNAPPY, b"")
    with pytest.raises(DecodeError, match="a snappy block of"):
        decompress(Compression.SNAPPY, header + struct.pack(">i", size) + b"\x01\x00a", limit=100)


def test_a_snappy_block_that_declares_more_than_it_can_hold_is_refused_before_it_is_decompressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decompressed = calls_of(monkeypatch, snappy, "uncompress")
    declared = bytearray()
    size = 700 * MIB
    while size >= 0x80:
        declared.append(size & 0x7F | 0x80)
        size >>= 7
    declared.append(size)
    with pytest.raises(DecodeError, match="declares 734003200"):
        decompress(Compression.SNAPPY, bytes(declared) + bytes(20_000), limit=2**31)
    with pytest.raises(DecodeError, match="without a length"):
        decompress(Compression.SNAPPY, b"\xff" * 5, limit=2**31)
    assert decompressed == []


def test_lz4_is_written_with_independent_blocks_of_64_kib_without_checksums() -> None:
    flags, block = compress(Compression.LZ4, TEXT)[4:6]
    assert (flags, block) == (0b0110_0000, 4 << 4)


@pytest.mark.parametrize(
    "options",
    [
        {"content_checksum": True, "block_checksum": True},
        {"store_size": True},
        {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
    ],
    ids=["checksums", "content size", "4 MiB blocks"],
)
def test_lz4_frames_with_what_java_reads_are_read(options: dict[str, int]) -> None:
    frame = lz4.frame.compress(TEXT, block_linked=False, **options)
    assert decompress(Compression.LZ4, frame, limit=len(TEXT)) == TEXT


def test_lz4_frames_with_dependent_blocks_are_refused_as_java_consumers_cannot_read_them() -> None:
    with pytest.raises(DecodeError, match="independent blocks"):
        decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True), limit=len(TEXT))


def test_two_lz4_frames_are_refused_as_java_consumers_read_only_the_first() -> None:
    frame = compress(Compression.LZ4, TEXT)
    with pytest.raises(DecodeError, match="after the lz4 frame"):
        decompress(Compression.LZ4, frame + frame, limit=10 * len(TEXT))


@pytest.mark.parametrize("level", [3, 19, 22])
def test_zstd_streams_of_unknown_size_are_read_at_every_window_size(level: int) -> None:
    stream = zstandard.ZstdCompressor(level=level, write_checksum=True).compressobj()
    whole = stream.compress(TEXT[:1000]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    whole += stream.compress(TEXT[1000:]) + stream.flush()
    assert decompress(Compression.ZSTD, whole, limit=len(TEXT)) == TEXT


def test_a_zstd_window_beyond_what_java_reads_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    whole = stream.compress(TEXT) + stream.flush()
    with pytest.raises(DecodeError, match="too much memory"):
        decompress(Compression.ZSTD, whole, limit=len(TEXT))


def test_a_zstd_checksum_that_does_not_match_is_refused() -> None:
    whole = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    whole[-1] ^= 1
    with pytest.raises(DecodeError, match="broken zstd"):
        decompress(Compression.ZSTD, whole, limit=len(TEXT))


@pytest.mark.parametrize("magic", [0x184D2A50, 0x184D2A5F])
def test_skippable_zstd_frames_are_skipped_as_in_java(magic: int) -> None:
    skippable = struct.pack("<II", magic, 3) + b"abc"
    frame = compress(Compression.ZSTD, TEXT)
    for whole in (skippable + frame, frame + skippable, frame + skippable + skippable):
        assert decompress(Compression.ZSTD, whole, limit=len(TEXT)) == TEXT
    assert decompress(Compression.ZSTD, skippable + frame + skippable + frame, limit=10**7) == TEXT + TEXT


def test_a_skippable_zstd_frame_that_ends_early_is_refused() -> None:
    frame = compress(Compression.ZSTD, TEXT)
    with pytest.raises(DecodeError, match="ends early"):
        decompress(Compression.ZSTD, frame + struct.pack("<II", 0x184D2A50, 4) + b"abc", limit=len(TEXT))


def test_zstd_streams_that_are_read_at_the_same_time_do_not_mix() -> None:
    texts = [TEXT, TEXT[::-1], os.urandom(500_000)]
    streams = [decompress_chunks(Compression.ZSTD, compress(Compression.ZSTD, t), limit=10**7) for t in texts]
    outputs = [bytearray() for _ in streams]
    alive = list(range(len(streams)))
    while alive:
        for i in list(alive):
            chunk = next(streams[i], None)
            if chunk is None:
                alive.remove(i)
            else:
                outputs[i] += chunk
    assert outputs == texts


def test_a_context_with_a_large_window_is_not_kept() -> None:
    stream = zstandard.ZstdCompressor(level=22).compressobj()
    whole = stream.compress(TEXT) + stream.flush()
    decompress(Compression.ZSTD, compress(Compression.ZSTD, TEXT), limit=len(TEXT))
    idle = len(compression._zstd_contexts)
    assert idle
    decompress(Compression.ZSTD, whole, limit=len(TEXT))
    assert len(compression._zstd_contexts) == idle - 1


def test_cramjam_writes_what_is_read() -> None:
    # aiokafka's codecs, with their own defaults.
    for codec, stream in (
        (Compression.GZIP, cramjam.gzip.compress(TEXT)),
        (Compression.ZSTD, cramjam.zstd.compress(TEXT)),
        (Compression.SNAPPY, cramjam.snappy.compress_raw(TEXT)),
    ):
        assert decompress(codec, bytes(stream), limit=len(TEXT)) == TEXT


# --- bombs --------------------------------------------------------------------------------------------------

BOMB = """
import resource, sys, time, zlib
from kafkapy.protocol.compression import *
import lz4.frame, snappy, zstandard

def bomb(codec):
    block = bytes(1 << 20)
    if codec == Compression.ZSTD:
        stream = zstandard.ZstdCompressor().compressobj()
        return b"".join(stream.compress(block) for _ in range(700)) + stream.flush()
    if codec == Compression.GZIP:  # a full flush makes the same bytes each time
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        first = stream.compress(block) + stream.flush(zlib.Z_FULL_FLUSH)
        return first + (stream.compress(block) + stream.flush(zlib.Z_FULL_FLUSH)) * 699
    if codec == Compression.LZ4:
        frame = lz4.frame.compress(block, block_linked=False, store_size=False)
        return frame[:7] + frame[7:-4] * 700 + frame[-4:]
    framed = compress(codec, block)
    return framed[:16] + framed[16:] * 700

codec = Compression[sys.argv[1]]
decompress(codec, compress(codec, b"warm"), limit=100)
data = bomb(codec)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
total = 0
try:
    for chunk in decompress_chunks(codec, data, limit=64 << 20):
        total += len(chunk)
except DecompressedSizeError:
    pass
spent = time.process_time() - start
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(len(data), total, grown, spent)
"""


@pytest.mark.parametrize("codec", REAL)
def test_a_bomb_of_700_mib_is_refused_at_the_limit_in_little_memory_and_time(codec: Compression) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMB, codec.name], check=True, capture_output=True, text=True, timeout=60
    )
    size, total, grown_kib, spent = map(float, done.stdout.split())
    assert size < 40 * MIB
    assert 63 * MIB < total <= 64 * MIB
    assert grown_kib < 8 * 1024
    assert spent < 0.5


def test_no_codec_package_is_imported_before_it_is_used() -> None:
    script = "import sys, kafkapy.protocol.records; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert not {"lz4", "snappy", "cramjam", "zstandard", "numpy"} & set(done.stdout.split())
