"""The four codecs of record batches: compression, and decompression in bounded chunks.

| codec  | the content of a batch of magic 2 after its header                                                |
|--------|---------------------------------------------------------------------------------------------------|
| gzip   | one or more gzip members (RFC 1952); other bytes after a member are not read                      |
| snappy | xerial framing: `\\x82SNAPPY\\0`, version and compatible version (int32 each), then blocks of a   |
|        | big-endian int32 length and that many bytes of raw snappy. librdkafka writes one bare block of    |
|        | raw snappy: it is read, as Java's stream reads it, but never written                              |
| lz4    | one LZ4 frame of format version 1 with independent blocks, written with blocks of 64 KiB (KIP-57) |
| zstd   | one or more zstd frames (KIP-110), among them skippable ones, which hold no records               |

What Apache Kafka takes is accepted: its gzip stream does not read what follows the last member, its zstd
stream skips skippable frames. Its lz4 stream supports neither dependent blocks nor dictionaries. A stream
that ends early is refused, and so are bytes after the end of the other streams.

No declared size is trusted. Output comes in chunks, at most `limit` bytes in all. Raw snappy is the only
codec that cannot stream: its declared size is compared with the limit, and with the format's largest
expansion, before anything is allocated. A zstd window may be 128 MiB, the most that zstd's level 22 writes
and that zstd-jni reads. Its memory is touched only as far as output was produced.

The packages for lz4, snappy and zstd take 7 to 18 ms each to import, so each is imported on first use.

Source: Kafka's `org.apache.kafka.common.compress`, `CompressionType`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from kafkapy.protocol.errors import DecodeError

if TYPE_CHECKING:
    import zstandard

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_DECOMPRESSED = 64 * 1024 * 1024
"""How many bytes a batch may decompress to by default."""

_SLICE = 64 * 1024
"""The most bytes of input, and of output, of one step of a stream."""


class Compression(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_MASK = 0x07
_CODECS = tuple(Compression)


def codec_in(attributes: int) -> Compression:
    """Return the codec in the attributes of a batch or of a message.

    Raises:
        DecodeError: Kafka has no codec with that number.
    """
    codec = attributes & CODEC_MASK
    if codec >= len(_CODECS):
        raise DecodeError(f"unknown compression codec {codec}")
    return _CODECS[codec]


class DecompressedSizeError(DecodeError):
    """The payload decompresses to more than the limit."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` to the payload of a batch with this codec.

    Args:
        level: Kafka's `compression.<codec>.level`: gzip 1 to 9 or -1, lz4 1 to 17, zstd -131072 to 22. None
            is the codec's default. Snappy has no levels.
    """
    return _COMPRESS[codec](data, level)


def decompress_chunks(codec: Compression, data: Buffer, *, limit: int) -> Iterator[bytes]:
    """Yield the decompressed payload in chunks, none of them empty.

    Raises:
        DecompressedSizeError: there are more than `limit` bytes; the chunks yielded are within the limit.
        DecodeError: the stream is broken, ends early or is followed by other bytes.
    """
    total = 0
    for chunk in _DECOMPRESS[codec](memoryview(data), limit):
        total += len(chunk)
        if total > limit:
            raise DecompressedSizeError(f"the records decompress to more than {limit} bytes")
        if chunk:
            yield chunk


def decompress(codec: Compression, data: Buffer, *, limit: int) -> bytes:
    """Return the decompressed payload.

    Raises:
        DecodeError: as `decompress_chunks`.
    """
    return b"".join(decompress_chunks(codec, data, limit=limit))


# --- none ---------------------------------------------------------------------------------------------------


def _store(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _unstore(data: memoryview, limit: int) -> Iterator[bytes]:
    for start in range(0, len(data), _SLICE):
        yield bytes(data[start : start + _SLICE])


# --- gzip ---------------------------------------------------------------------------------------------------

_GZIP_WBITS = 31
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_MEMBER_SIZE = 18
"""The least bytes of a member."""


def _gzip(data: Buffer, level: int | None) -> bytes:
    stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    return stream.compress(data) + stream.flush()


def _gunzip(data: memoryview, limit: int) -> Iterator[bytes]:
    # The input is passed in slices: a call copies the input that it does not use, which must stay small.
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            if position >= len(data):
                raise DecodeError("the gzip stream ends early")
            rest: Buffer = data[position : position + _SLICE]
            position += len(rest)
            while rest and not member.eof:
                try:
                    chunk = member.decompress(rest, _SLICE)
                except zlib.error as error:
                    raise DecodeError(f"broken gzip stream: {error}") from None
                rest = member.unconsumed_tail
                yield chunk
        position -= len(member.unused_data)
        rest = data[position : position + _GZIP_MEMBER_SIZE]
        if len(rest) < _GZIP_MEMBER_SIZE or bytes(rest[: len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
            return  # what is no member is not read, as by Java's GZIPInputStream


# --- snappy -------------------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
"""The bytes of input in a block, as in Java's SnappyOutputStream."""

_SNAPPY_EXPANSION = 22
"""The largest expansion of an element of raw snappy: 3 bytes give at most 64, 2 at most 11."""

_INT32 = struct.Struct(">i")


def _snap(data: Buffer, level: int | None) -> bytes:
    import snappy

    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block: bytes = snappy.compress(view[start : start + _XERIAL_BLOCK])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnap(data: memoryview, limit: int) -> Iterator[bytes]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _unsnap_block(data, limit)
        return
    # The versions after the magic are ignored: some writers have them in little-endian order.
    position = len(_XERIAL_HEADER)
    if position > len(data):
        raise DecodeError("the snappy stream ends early")
    while position < len(data):
        if position + 4 > len(data):
            raise DecodeError("the snappy stream ends early")
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if size <= 0 or size > len(data) - position:
            raise DecodeError(f"a snappy block of {size} bytes where {len(data) - position} are left")
        yield _unsnap_block(data[position : position + size], limit)
        position += size


def _unsnap_block(block: memoryview, limit: int) -> bytes:
    import snappy

    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise DecodeError("a snappy block without a length")
    if declared > _SNAPPY_EXPANSION * len(block):
        raise DecodeError(f"a snappy block of {len(block)} bytes that declares {declared}")
    if declared > limit:
        raise DecompressedSizeError(f"the records decompress to more than {limit} bytes")
    try:
        output: bytes = snappy.uncompress(block)
    except snappy.UncompressError:
        raise DecodeError("broken snappy block") from None
    return output


# --- lz4 ----------------------------------------------------------------------------------------------------

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_MUST_BE_CLEAR = 0b11
"""The bits of the frame's flags for a dictionary id and the reserved one."""
_LZ4_INDEPENDENT = 0b0110_0000
"""The flags of format version 1 and independent blocks."""

_LZ4_DEFAULT_LEVEL = 9
"""The only level with which Kafka uses the fast compressor."""


def _lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0
        if level in (None, _LZ4_DEFAULT_LEVEL)
        else max(level or 0, lz4.frame.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _unlz4(data: memoryview, limit: int) -> Iterator[bytes]:
    import lz4.frame

    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise DecodeError("not an lz4 frame")
    if data[4] & _LZ4_MUST_BE_CLEAR or data[4] & 0b1110_0000 != _LZ4_INDEPENDENT:
        raise DecodeError(
            f"an lz4 frame with flags {data[4]:#04x}: only version 1 with independent blocks is read"
        )
    frame = lz4.frame.LZ4FrameDecompressor()
    position = 0
    while not frame.eof:
        rest = b""
        if frame.needs_input:
            rest = data[position : position + _SLICE].tobytes()
            position += len(rest)
        try:
            chunk: bytes = frame.decompress(rest, _SLICE)
        except RuntimeError as error:
            raise DecodeError(f"broken lz4 frame: {error}") from None
        if not rest and not chunk and frame.needs_input and position == len(data):
            raise DecodeError("the lz4 frame ends early")
        yield chunk
    if position != len(data) or frame.unused_data:
        raise DecodeError("bytes after the lz4 frame")


# --- zstd ---------------------------------------------------------------------------------------------------

_ZSTD_SKIPPABLE = struct.Struct("<II")
"""The head of a skippable frame: its magic and the size of its content (RFC 8878)."""
_ZSTD_SKIPPABLE_MAGICS = range(0x184D2A50, 0x184D2A60)
_ZSTD_MAX_WINDOW = 1 << 27
_ZSTD_KEPT_WINDOW = 1 << 23
"""The largest window of a context that is kept: a context keeps its window's memory."""
_ZSTD_RLE_BLOCK = 1

_zstd_contexts: list[zstandard.ZstdDecompressor] = []
"""Idle decompression contexts, kept since making one takes 8 µs."""


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _unzstd(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress block by block.

    A block yields at most 128 KiB, and the chain of blocks shows whether the stream is truncated. A frame is
    a header, the blocks, and 4 bytes of checksum if the header says so. A block has a 3-byte little-endian
    header (bit 0: the last block, bits 1-2: type, then the size) and its content (RFC 8878).
    """
    import zstandard

    if not data:
        raise DecodeError("the zstd stream ends early")
    context = (
        _zstd_contexts.pop()
        if _zstd_contexts
        else zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    )
    keep = True
    position = 0
    try:
        while position < len(data):
            if (skippable := _skippable_zstd_frame(data, position)) > 0:
                position += skippable
                if position > len(data):
                    raise DecodeError("the zstd stream ends early")
                continue
            parameters = zstandard.get_frame_parameters(data[position:])
            keep = keep and parameters.window_size <= _ZSTD_KEPT_WINDOW
            frame = context.decompressobj()
            start = position
            position += zstandard.frame_header_size(data[position:])
            last = False
            while not last:
                if position + 3 > len(data):
                    raise DecodeError("the zstd stream ends early")
                header = int.from_bytes(data[position : position + 3], "little")
                last = bool(header & 1)
                position += 3 + (1 if header >> 1 & 3 == _ZSTD_RLE_BLOCK else header >> 3)
                if last and parameters.has_checksum:
                    position += 4
                if position > len(data):
                    raise DecodeError("the zstd stream ends early")
                yield frame.decompress(data[start:position])
                start = position
            if not frame.eof:
                raise DecodeError("the zstd stream ends early")
    except zstandard.ZstdError as error:
        raise DecodeError(f"broken zstd stream: {error}") from None
    finally:
        if keep:
            _zstd_contexts.append(context)


def _skippable_zstd_frame(data: memoryview, position: int) -> int:
    """The bytes of the skippable frame that begins here, or 0 if it is another one."""
    if len(data) - position < _ZSTD_SKIPPABLE.size:
        return 0
    magic, size = _ZSTD_SKIPPABLE.unpack_from(data, position)
    return _ZSTD_SKIPPABLE.size + size if magic in _ZSTD_SKIPPABLE_MAGICS else 0


_COMPRESS: dict[Compression, Callable[[Buffer, int | None], bytes]] = {
    Compression.NONE: _store,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snap,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESS: dict[Compression, Callable[[memoryview, int], Iterator[bytes]]] = {
    Compression.NONE: _unstore,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnap,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
