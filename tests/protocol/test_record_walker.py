"""The record walker refuses malformed batches, and accepts only readable ones.

Its twins agree.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from kafkapy.protocol import record_walker
from kafkapy.protocol.compression import Compression, DecompressedSizeError, compress
from kafkapy.protocol.record_walker import (
    BatchSummary,
    InvalidRecordError,
    PureWalker,
    RecordWalker,
    walk_batch,
)
from kafkapy.protocol.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Record,
    TimestampType,
    build_batch,
    decode_records,
    read_header,
    set_max_timestamp,
)
from tests.protocol.record_strategies import plain, raw_batch, raw_record, records, varint
from tests.twins import without_compiled_parts

BUILT = find_spec("kafkapy.protocol._walker") is not None
CompiledWalker: type[RecordWalker] = (
    import_module("kafkapy.protocol._walker").Walker if BUILT else PureWalker  # then nothing uses it
)
TWINS: list[type[RecordWalker]] = [PureWalker, CompiledWalker]
compiled = pytest.mark.skipif(not BUILT, reason="the compiled walker was not built: no compiler?")
LIMIT = 1 << 20
CODECS = list(Compression)


@pytest.fixture(params=[PureWalker, pytest.param(CompiledWalker, marks=compiled)], ids=["pure", "compiled"])
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[RecordWalker]:
    """Runs the test with each of the twins."""
    chosen: type[RecordWalker] = request.param
    if chosen is PureWalker:
        without_compiled_parts(monkeypatch)
    assert record_walker.Walker is chosen
    return chosen


def walk(batch: bytes | bytearray, position: int = 0) -> BatchSummary:
    return walk_batch(batch, position, read_header(batch, position), max_decompressed=LIMIT)


# --- what it finds ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("codec", CODECS)
def test_a_summary_tells_the_timestamps_and_the_first_null_key(codec: Compression) -> None:
    found = [
        Record(timestamp=1000, key=b"a", value=b"x" * 100_000),
        Record(timestamp=3000, key=b"b", value=None, headers=[("h" * 70_000, None)]),
        Record(timestamp=500, key=None, value=b""),
        Record(timestamp=3000, key=None, headers=[("é", b"\xff"), ("", b"")]),
    ]
    batch = b"\x00" * 3 + build_batch(found, compression=codec)
    assert walk(batch, 3) == BatchSummary(4, 3000, 1, 500, 2)


@pytest.mark.usefixtures("twin")
def test_records_without_a_timestamp_have_no_say_in_the_oldest_one() -> None:
    def summary(*timestamps: int) -> BatchSummary:
        return walk(build_batch([Record(timestamp=t, key=b"") for t in timestamps]))

    assert summary(-1, 7, -1, 5) == BatchSummary(4, 7, 1, 5, -1)
    assert summary(-1, -1) == BatchSummary(2, NO_TIMESTAMP, -1, NO_TIMESTAMP, -1)
    assert summary(-1, -5) == BatchSummary(2, NO_TIMESTAMP, -1, -5, -1)


@pytest.mark.usefixtures("twin")
def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch([Record(timestamp=5, key=b""), Record(timestamp=9, key=b"")])
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 77)
    assert walk(batch) == BatchSummary(2, 77, 0, 77, -1)


@pytest.mark.usefixtures("twin")
@given(records, st.sampled_from(CODECS))
def test_every_batch_that_is_built_passes(found: list[Record], codec: Compression) -> None:
    batch = build_batch(found, compression=codec)
    timestamps = [r.timestamp for r in found]
    newest = max(-1, *timestamps)
    assert walk(batch) == BatchSummary(
        len(found),
        newest,
        -1 if newest == -1 else timestamps.index(newest),
        min((t for t in timestamps if t != -1), default=-1),
        next((i for i, r in enumerate(found) if r.key is None), -1),
    )


# --- what it refuses ----------------------------------------------------------------------------------------

ONE_HEADER = varint(1)

BROKEN = {
    "negative length": raw_record(length=varint(-1)),
    "length too small for a record": raw_record(b"\x00" * 5),
    "length that leaves bytes over": raw_record(length=varint(7)) + b"\x00",
    "length that cuts a varint": raw_record(b"\x00\x00\x00\x01\x01\x80"),
    "length that cuts a field": raw_record(b"\x00\x00\x00\x01\x04aa\x00")[:-1],
    "length beyond the batch": raw_record(length=varint(2**31 - 1)),
    "overlong length": raw_record(length=b"\x8c\x80\x80\x80\x80\x00"),
    "attributes that are a two-byte varint": raw_record(attributes=0x80),
    "overlong timestamp delta": raw_record(timestamp=b"\x80" * 10 + b"\x00"),
    "timestamp delta of 65 bits": raw_record(timestamp=b"\x80" * 9 + b"\x02"),
    "overlong offset delta": raw_record(offset=b"\x80" * 5 + b"\x00"),
    "offset delta of 33 bits": raw_record(offset=b"\x80\x80\x80\x80\x10"),
    "wrong offset delta": raw_record(offset=varint(1)),
    "negative offset delta": raw_record(offset=varint(-1)),
    "key length below null": raw_record(key=varint(-2)),
    "key beyond the record": raw_record(key=varint(3)),
    "value length below null": raw_record(value=varint(-2)),
    "value beyond the record": raw_record(value=varint(2**31 - 1)),
    "negative header count": raw_record(headers=varint(-1)),
    "more headers than fit": raw_record(headers=varint(2) + b"\x00\x00\x00"),
    "null header key": raw_record(headers=ONE_HEADER + varint(-1) + varint(0)),
    "header key beyond the record": raw_record(headers=ONE_HEADER + varint(2) + b"a"),
    "header value below null": raw_record(headers=ONE_HEADER + varint(0) + varint(-2)),
    "header value beyond the record": raw_record(headers=ONE_HEADER + varint(0) + varint(1)),
    "header key with a lone continuation byte": raw_record(headers=ONE_HEADER + varint(1) + b"\x80\x00"),
    "header key with a cut sequence": raw_record(headers=ONE_HEADER + varint(2) + b"\xe2\x82\x00"),
    "header key with a surrogate": raw_record(headers=ONE_HEADER + varint(3) + b"\xed\xa0\x80\x00"),
    "header key with an overlong form": raw_record(headers=ONE_HEADER + varint(2) + b"\xc0\xaf\x00"),
    "header key above U+10FFFF": raw_record(headers=ONE_HEADER + varint(4) + b"\xf4\x90\x80\x80\x00"),
}


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_record_that_a_consumer_could_not_read_is_refused(broken: bytes, codec: Compression) -> None:
    with pytest.raises(InvalidRecordError, match=r"^record 0: ") as caught:
        walk(raw_batch(compress(codec, broken), 1, attributes=codec))
    assert caught.value.record_index == 0


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("codec", CODECS)
def test_the_error_names_the_first_record_that_is_wrong(codec: Compression) -> None:
    payload = b"".join(raw_record(offset=varint(offset)) for offset in (0, 1, 2, 2, 4))
    with pytest.raises(InvalidRecordError, match="record 3: an offset that does not follow") as caught:
        walk(raw_batch(compress(codec, payload), 5, attributes=codec))
    assert caught.value.record_index == 3


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("base", [2**63 - 1, -(2**63)])
def test_a_timestamp_that_overflows_is_refused(base: int) -> None:
    delta = varint(1 if base > 0 else -1)
    walk(raw_batch(raw_record(), 1, base_timestamp=base))
    with pytest.raises(InvalidRecordError, match="timestamp out of range"):
        walk(raw_batch(raw_record(timestamp=delta), 1, base_timestamp=base))


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(
    "record",
    [
        raw_record(b"\x7f\x80\x00\x80\x80\x80\x80\x00\x81\x00\x81\x80\x00\x80\x00"),
        raw_record(headers=ONE_HEADER + varint(4) + "\U0010ffff".encode() + varint(-1)),
        raw_record(headers=ONE_HEADER + varint(0) + varint(0)),
    ],
    ids=["longer varints than needed", "last code point", "empty header"],
)
def test_what_is_unusual_but_readable_passes(record: bytes) -> None:
    batch = raw_batch(record, 1)
    assert walk(batch).first_null_key == 0
    assert len(decode_records(batch)) == len(list(AiokafkaBatch(bytes(batch)))) == 1


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1, -1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_record_count_that_is_not_the_number_of_records_is_refused(codec: Compression, count: int) -> None:
    payload = compress(codec, raw_record() + raw_record(offset=varint(1)))
    with pytest.raises(InvalidRecordError):
        walk(raw_batch(payload, count, attributes=codec))


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_last_record_are_refused(codec: Compression) -> None:
    for surplus in (b"\x00", b"\x80", raw_record(offset=varint(1))):
        with pytest.raises(InvalidRecordError):
            walk(raw_batch(compress(codec, raw_record() + surplus), 1, attributes=codec))


@pytest.mark.usefixtures("twin")
def test_a_payload_that_does_not_decompress_is_refused() -> None:
    for codec in (*CODECS[1:], 5, 7):
        with pytest.raises(InvalidRecordError):
            walk(raw_batch(raw_record(), 1, attributes=codec))


@pytest.mark.usefixtures("twin")
def test_a_batch_that_is_not_all_there_is_refused() -> None:
    batch = build_batch([Record(value=b"x")])
    for size in range(HEADER_SIZE, len(batch)):
        with pytest.raises(InvalidRecordError, match="are left"):
            walk(batch[:size])


@pytest.mark.usefixtures("twin")
def test_other_message_formats_are_refused() -> None:
    batch = build_batch([Record()])
    batch[16] = 1
    with pytest.raises(InvalidRecordError, match="message format 1"):
        walk(batch)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_payload_beyond_the_limit_is_refused_as_too_large(codec: Compression) -> None:
    with pytest.raises(DecompressedSizeError):
        walk(build_batch([Record(value=bytes(LIMIT))], compression=codec))
    walk(build_batch([Record(value=bytes(LIMIT - 100))], compression=codec))


# --- the twins ----------------------------------------------------------------------------------------------


def run(twin: type[RecordWalker], pieces: list[bytes], base_timestamp: int, count: int) -> tuple[object, ...]:
    """The summary, or the index of the invalid record."""
    walker = twin(base_timestamp, count)
    for piece in pieces:
        walker.feed(piece)
    if walker.finish() is None:
        return walker.summary()
    return walker.summary()[:1]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, int]:
    """The payload of a batch with a few bytes changed, deleted or inserted.

    Its record count comes with it.
    """
    found = draw(records)
    payload = build_batch(found)[HEADER_SIZE:]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(payload) - 1, 0)))
        kind = draw(st.sampled_from(["set", "delete", "insert", "cut", "swap in"]))
        if kind == "set" and payload:
            payload[at] = draw(st.integers(0, 255))
        elif kind == "delete":
            del payload[at : at + draw(st.integers(1, 4))]
        elif kind == "insert":
            payload[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif kind == "cut":
            del payload[at:]
        else:
            odd = draw(st.sampled_from([b"\x80\x00", b"\xff\xff\xff\xff\x0f", b"\x01", b"\xc3\xa9", b"\x80"]))
            payload[at : at + len(odd)] = odd
    return bytes(payload), len(found) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))


@compiled
@settings(max_examples=500)
@given(
    mutated(), st.lists(st.integers(0, 500), max_size=8), st.sampled_from([0, -1, 2**63 - 20, -(2**63) + 5])
)
@example((raw_record(headers=ONE_HEADER + varint(2) + b"\xc3\xa9" + varint(-1)), 1), [9], 0)
def test_the_twins_agree_wherever_the_pieces_are_cut(
    payload_and_count: tuple[bytes, int], cuts: list[int], base: int
) -> None:
    payload, count = payload_and_count
    edges = [0, *sorted(min(cut, len(payload)) for cut in cuts), len(payload)]
    pieces = [payload[a:b] for a, b in itertools.pairwise(edges)]
    pure, compiled = (run(twin, pieces, base, count) for twin in TWINS)
    assert pure == compiled
    # The pieces make no difference to the outcome.
    assert pure == run(PureWalker, [payload], base, count)


@compiled
@given(records)
def test_the_twins_agree_on_pieces_of_one_byte(found: list[Record]) -> None:
    batch = build_batch(found)
    pieces = [bytes([byte]) for byte in batch[HEADER_SIZE:]]
    base = read_header(batch).base_timestamp
    pure, compiled = (run(twin, pieces, base, len(found)) for twin in TWINS)
    assert pure == compiled
    assert len(pure) > 1


@compiled
@given(st.binary(max_size=200), st.integers(-2, 5))
def test_the_twins_agree_on_arbitrary_bytes(payload: bytes, count: int) -> None:
    pure, compiled = (run(twin, [payload[:50], payload[50:]], 0, count) for twin in TWINS)
    assert pure == compiled


@settings(max_examples=500)
@given(mutated())
def test_consumers_read_every_batch_that_passes(payload_and_count: tuple[bytes, int]) -> None:
    batch = raw_batch(*payload_and_count)
    try:
        summary = walk(batch)
    except InvalidRecordError:
        return
    found = plain(decode_records(batch))
    assert summary.record_count == len(found)
    for reader in (KafkaPythonBatch(bytes(batch)), AiokafkaBatch(bytes(batch))):
        assert plain(reader) == found


def test_a_walker_that_found_something_wrong_says_so_for_ever(twin: type[RecordWalker]) -> None:
    walker = twin(0, 1)
    wrong = walker.feed(raw_record(offset=varint(1)))
    assert wrong is not None
    assert walker.feed(raw_record()) == walker.finish() == walker.feed(b"") == wrong


@compiled
@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_the_compiled_twin_takes_any_contiguous_buffer(buffer: type, size: int) -> None:
    walker = CompiledWalker(0, 1)
    assert walker.feed(buffer(raw_record(value=varint(size) + bytes(size)))) is None
    assert walker.finish() is None


@compiled
def test_the_compiled_twin_refuses_what_is_no_buffer() -> None:
    walker = CompiledWalker(0, 1)
    for wrong in (None, 3, "text"):
        with pytest.raises(TypeError):
            walker.feed(wrong)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        walker.feed(memoryview(bytes(10))[::2])
    with pytest.raises(OverflowError):
        CompiledWalker(2**63, 1)
    with pytest.raises(OverflowError):
        CompiledWalker(0, 2**31)
    with pytest.raises(TypeError):
        CompiledWalker(base_timestamp=0, record_count=1)  # type: ignore[call-arg]


@compiled
@pytest.mark.parametrize(("setting", "expected"), [("", "_walker"), ("1", "record_walker")])
def test_the_environment_chooses_the_pure_twin(setting: str, expected: str) -> None:
    script = "from kafkapy.protocol.record_walker import Walker; print(Walker.__module__)"
    environment = {"KAFKAPY_PURE_PYTHON": setting, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"kafkapy.protocol.{expected}"


BIG_RECORD = """
import resource, sys, time
from kafkapy.protocol.record_walker import *
from kafkapy.protocol.records import *

batch = sys.stdin.buffer.read()
header = read_header(batch)
warm = build_batch([Record()], compression=header.compression)
walk_batch(warm, 0, read_header(warm), max_decompressed=100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
summary = walk_batch(batch, 0, header, max_decompressed=64 << 20)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(summary.record_count, grown, time.process_time() - start)
"""


@pytest.mark.parametrize("pure", ["", "1"], ids=["compiled", "pure"])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_large_compressed_record_is_never_in_memory_whole(codec: Compression, pure: str) -> None:
    record = Record(value=bytes(30 << 20), headers=[("h" * (30 << 20), None)])
    done = subprocess.run(
        [sys.executable, "-c", BIG_RECORD],
        input=build_batch([record], compression=codec),
        env={"KAFKAPY_PURE_PYTHON": pure, "PYTHONPATH": ":".join(sys.path)},
        check=True,
        capture_output=True,
    )
    count, grown_kib, spent = map(float, done.stdout.split())
    assert count == 1
    assert grown_kib < 8 * 1024
    assert spent < 0.5
