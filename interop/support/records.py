"""The records that every client must carry unchanged, and their comparison."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_START = 1_700_000_000_000


class Record(NamedTuple):
    """What a producer sends; the timestamp is in milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = _START


class Received(NamedTuple):
    """What a consumer got, with the place where it was."""

    partition: int
    offset: int
    record: Record


def sample_records(*, rare_nulls: bool = True) -> list[Record]:
    """Return records of every kind, the same ones on every call.

    They have null, empty and binary keys and values, headers of all kinds, old and equal timestamps, and
    sizes from 0 to just under the default limit of 1 MiB.

    Some clients refuse to send the rare nulls: key and value both null, a header's value.
    """
    rng = random.Random(20261121)
    every_byte = bytes(range(256))
    return [
        Record(None, b"no key", (), _START),
        Record(b"tombstone", None, (), _START + 1),
        *([Record(None, None, (), _START + 2)] if rare_nulls else []),
        Record(b"", b"", (), _START + 3),
        Record(every_byte, every_byte * 4, (), _START + 4),
        Record("ключ".encode(), "значение ☃ 日本語".encode(), (("заголовок", "☃".encode()),), _START + 5),
        Record(b"headers", b"v", (("a", b"1"), ("a", b"2"), ("empty", b""), ("", b"no name")), _START),
        *([Record(b"null header", b"v", (("b", None), ("c", b"1")), _START)] if rare_nulls else []),
        Record(b"binary header", b"v", (("raw", every_byte), ("long", b"h" * 70_000)), _START + 6),
        Record(b"the epoch", b"v", (), 1),
        Record(b"long ago", b"v", (), 946_684_800_000),
        Record(b"k" * 5_000, b"a long key", (), _START + 7),
        *(
            Record(b"%d" % n, rng.randbytes(n), (("n", b"%d" % n),), _START + 10 + n)
            for n in range(1, 200, 7)
        ),
        Record(b"big and random", rng.randbytes(900_000), (), _START + 300),
        Record(b"big and regular", b"kafkapy " * 110_000, (), _START + 301),
        *(Record(b"same time", b"%d" % n, (), _START + 400) for n in range(5)),
        Record(b"last", b"the end", (), _START + 500),
    ]


def text_records(count: int) -> list[Record]:
    """Records of one-line text, for tools that read and write lines."""
    places = ("home", "search", "basket", "checkout", "help")
    rng = random.Random(count)
    return [
        Record(
            f"visitor-{rng.randrange(20)}".encode(),
            f'{{"page": "/{rng.choice(places)}", "n": {n}, "ms": {rng.randrange(1, 900)}}}'.encode(),
            (("agent", f"browser {rng.randrange(3)}".encode()), ("n", b"%d" % n)),
            _START + n,
        )
        for n in range(count)
    ]


def check_one_partition(sent: Sequence[Record], received: Sequence[Received], first_offset: int = 0) -> None:
    """Check the records of one partition: same content, same order, consecutive offsets."""
    assert [got.offset for got in received] == list(range(first_offset, first_offset + len(sent)))
    for expected, got in zip(sent, received, strict=True):
        assert got.record == expected, (
            f"offset {got.offset}: sent {_short(expected)}, got {_short(got.record)}"
        )


def check_partitions(sent: Iterable[Record], received: Iterable[Received]) -> None:
    """Check that each record is there once, and those of a key in one partition, in order."""
    sent, received = list(sent), sorted(received, key=lambda got: (got.partition, got.offset))
    by_key: dict[bytes | None, list[Record]] = {}
    for record in sent:
        by_key.setdefault(record.key, []).append(record)
    came: dict[bytes | None, list[Received]] = {}
    for got in received:
        came.setdefault(got.record.key, []).append(got)
    assert came.keys() == by_key.keys()
    for key, records in by_key.items():
        assert len({got.partition for got in came[key]}) == 1, f"{key!r} is in several partitions"
        assert [got.record for got in came[key]] == records, f"{key!r} differs"
    for partition in {got.partition for got in received}:
        offsets = [got.offset for got in received if got.partition == partition]
        assert offsets == list(range(len(offsets)))


def _short(record: Record) -> str:
    text = repr(record)
    return text if len(text) < 300 else text[:300] + "…"
