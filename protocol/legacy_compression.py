"""The codecs of messages of magic 0 and 1, without zstd and with another lz4 in magic 0.

The header of an LZ4 frame ends with a checksum: the second byte of the xxHash32 of the frame descriptor
(flags, block size, content size). The first clients with lz4 hashed the frame's magic number too, and brokers
and clients still do so for messages of magic 0 (KAFKA-3160). Messages of magic 1 have the checksum of the
frame format:

    offset  field
         0  magic number          4 bytes, 04 22 4d 18
         4  flags, block size     1 byte each
         6  content size          8 bytes, if bit 3 of the flags is set
            header checksum       1 byte; magic 0: of everything before it, magic 1: the same from byte 4 on

Frames that are read with magic 0 may have either checksum or a wrong one: no reader has ever checked it.

Source: Kafka's `Lz4BlockOutputStream`, `Lz4BlockInputStream`; the LZ4 frame format 1.6; the xxHash
specification.
"""

from __future__ import annotations

import struct

from kafkapy.protocol.compression import Buffer, Compression, compress, decompress
from kafkapy.protocol.errors import DecodeError

_FLAGS_AT = 4
_CONTENT_SIZE = 0x08
_MASK = 0xFFFFFFFF


def compress_legacy(codec: Compression, magic: int, data: Buffer) -> bytes:
    """Compress messages to the value of a wrapper of this magic; the codec must not be zstd."""
    compressed = compress(codec, data)
    if codec is Compression.LZ4 and magic == 0:
        return with_header_checksum(compressed, from_byte=0)
    return compressed


def decompress_legacy(codec: Compression, magic: int, data: Buffer, *, limit: int) -> bytes:
    """Return the messages in the value of a wrapper.

    Raises:
        DecodeError: as `decompress`, and for zstd.
    """
    if codec is Compression.ZSTD:
        raise DecodeError(f"messages of magic {magic} cannot be compressed with zstd")
    if codec is Compression.LZ4 and magic == 0:
        data = with_header_checksum(data, from_byte=_FLAGS_AT)
    return decompress(codec, data, limit=limit)


def with_header_checksum(frame: Buffer, *, from_byte: int) -> bytes:
    """Return the LZ4 frame with its header checksum computed from `from_byte` on.

    A frame that is too short for a checksum is returned as it is.
    """
    if len(frame) <= _FLAGS_AT:
        return bytes(frame)
    at = _FLAGS_AT + (10 if frame[_FLAGS_AT] & _CONTENT_SIZE else 2)
    if len(frame) <= at:
        return bytes(frame)
    changed = bytearray(frame)
    changed[at] = xxhash32(changed[from_byte:at]) >> 8 & 0xFF
    return bytes(changed)


def xxhash32(data: Buffer) -> int:
    """Return the xxHash32 with seed 0 of fewer than 16 bytes; no header is longer."""
    assert len(data) < 16
    value = 374761393 + len(data)
    words_end = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:words_end]):
        value = _rotate(value + word * 3266489917, 17) * 668265263
    for byte in data[words_end:]:
        value = _rotate(value + byte * 374761393, 11) * 2654435761
    value &= _MASK
    value = (value ^ value >> 15) * 2246822519 & _MASK
    value = (value ^ value >> 13) * 3266489917 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
