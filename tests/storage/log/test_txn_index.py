"""The index of aborted transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.txn_index import AbortedTxn, CorruptTransactionIndexError, TransactionIndex

ABORTED = [
    AbortedTxn(0, 0, 10, 11),
    AbortedTxn(1, 5, 15, 13),
    AbortedTxn(2, 18, 35, 25),
    AbortedTxn(3, 32, 50, 40),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TransactionIndex]:
    index = TransactionIndex(FileSystem(), str(tmp_path / f"{0:020d}.txnindex"), 0)
    yield index
    index.close()


def collected(index: TransactionIndex, first: int, end: int) -> tuple[list[AbortedTxn], bool]:
    found: list[AbortedTxn] = []
    done = index.collect(first, end, found)
    return found, done


def test_without_aborted_transactions_there_is_no_file(index: TransactionIndex) -> None:
    assert list(index) == []
    assert collected(index, 0, 100) == ([], False)
    index.truncate_to(0)
    index.check()
    assert index.file is None
    assert not Path(index.path).exists()


def test_an_entry_has_34_bytes(index: TransactionIndex) -> None:
    assert index.make() is True
    index.append(AbortedTxn(1, 2, 3, 4))
    assert index.make() is False
    index.append(AbortedTxn(1, 5, 6, 7))
    assert Path(index.path).read_bytes() == struct.pack("!hqqqq", 0, 1, 2, 3, 4) + struct.pack(
        "!hqqqq", 0, 1, 5, 6, 7
    )


@pytest.mark.parametrize(
    ("first", "end", "found", "done"),
    [
        (0, 100, ABORTED, False),
        (0, 32, ABORTED[:3], True),
        (0, 35, ABORTED, True),
        (10, 35, ABORTED, True),
        (11, 35, ABORTED[1:], True),
        (20, 41, ABORTED[2:], False),
        (20, 40, ABORTED[2:], True),
        (0, 5, ABORTED[:1], True),
        (51, 100, [], False),
    ],
)
def test_a_fetch_range_gets_the_transactions_that_reach_into_it(
    index: TransactionIndex, first: int, end: int, found: list[AbortedTxn], done: bool
) -> None:
    for txn in ABORTED:
        index.append(txn)
    assert collected(index, first, end) == (found, done)


def test_entries_survive_reopening(index: TransactionIndex) -> None:
    for txn in ABORTED[:2]:
        index.append(txn)
    index.close()
    assert list(index) == ABORTED[:2]
    index.append(ABORTED[2])
    index.check()
    assert list(index) == ABORTED[:3]


@pytest.mark.parametrize(("offset", "kept"), [(51, 4), (50, 3), (16, 2), (15, 1), (0, 0)])
def test_truncation_forgets_transactions_whose_marker_is_cut(
    index: TransactionIndex, offset: int, kept: int
) -> None:
    for txn in ABORTED:
        index.append(txn)
    index.truncate_to(offset)
    assert list(index) == ABORTED[:kept]
    assert Path(index.path).stat().st_size == kept * 34
    index.reset()
    assert list(index) == []


GOOD = struct.pack("!hqqqq", 0, 1, 2, 30, 40)


@pytest.mark.parametrize(
    "content",
    [
        GOOD[:-1],
        GOOD + b"\0",
        GOOD + GOOD,
        struct.pack("!hqqqq", 1, 1, 2, 30, 40),
        struct.pack("!hqqqq", 0, 1, 2, 19, 40),
        struct.pack("!hqqqq", 0, 1, 31, 30, 40),
        struct.pack("!hqqqq", 0, -1, 2, 30, 40),
    ],
)
def test_damage_is_found(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{20:020d}.txnindex"
    path.write_bytes(content)
    index = TransactionIndex(FileSystem(), str(path), 20)
    with pytest.raises(CorruptTransactionIndexError, match="txnindex"):
        index.check()
    index.close()
