"""A survey finds every batch that is left, and takes nothing else for one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import Survey, survey
from kafkapy.storage.disk.files import FileSystem

BASE_OFFSET = 1000
FIRST_EPOCH = 3
UNCOVERED = 17
"""The CRC covers a batch from its own field on; the offset and the epoch lie before that."""


def segment(chance: random.Random) -> tuple[list[bytes], int]:
    """Batches with gaps and rising epochs, and the offset after the last."""
    batches, offset, epoch = [], BASE_OFFSET, FIRST_EPOCH
    for _ in range(chance.randrange(1, 25)):
        offset += chance.choice((0, 0, 0, 5))
        epoch += chance.choice((0, 0, 1))
        records = [
            Record(value=chance.randbytes(chance.randrange(60))) for _ in range(chance.randrange(1, 5))
        ]
        batches.append(bytes(build_batch(records, base_offset=offset, leader_epoch=epoch)))
        offset += len(records)
    return batches, offset


def damage(data: bytearray, batches: list[bytes], chance: random.Random) -> None:
    """Damage a segment as a disk does, where a checksum tells."""
    index = chance.randrange(len(batches))
    start, size = sum(map(len, batches[:index])), len(batches[index])
    anywhere = chance.randrange(len(data))
    match chance.randrange(5):
        case 0:
            data[start + chance.randrange(UNCOVERED, size)] ^= 1 << chance.randrange(8)
        case 1:
            data[start + 8 + chance.randrange(4)] ^= 1 << chance.randrange(8)  # the length
        case 2:
            data[anywhere:anywhere] = data[anywhere : anywhere + chance.randrange(1, 64)]
        case 3:
            del data[anywhere:]
        case 4:
            sector = anywhere // 512 * 512
            nbytes = min(512, len(data) - sector)
            data[sector : sector + nbytes] = chance.choice((bytes(nbytes), chance.randbytes(nbytes)))


def look(
    path: Path, data: bytes, end_offset: int, *, end_epoch: int = -1, end_is_known: bool = True
) -> Survey:
    path.write_bytes(data)
    files = FileSystem()
    file = files.open(str(path))
    try:
        return survey(
            files,
            file,
            0,
            len(data),
            base_offset=BASE_OFFSET,
            expected=BASE_OFFSET,
            end_offset=end_offset,
            leader_epoch=FIRST_EPOCH,
            end_epoch=end_epoch,
            end_is_known=end_is_known,
        )
    finally:
        file.release()


def found(data: bytes, result: Survey) -> list[bytes]:
    """The batches that are left."""
    batches = []
    for start, end in good_runs(result.damage, 0, result.end):
        while start < end:
            size = 12 + int.from_bytes(data[start + 8 : start + 12], "big")
            batches.append(data[start : start + size])
            start += size
    return batches


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("end_is_known", [True, False])
def test_all_that_is_left_is_found_and_nothing_else(tmp_path: Path, seed: int, *, end_is_known: bool) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        batches, end_offset = segment(chance)
        data = bytearray(b"".join(batches))
        damage(data, batches, chance)
        spoiled = bytes(data)
        result = look(tmp_path / "segment", spoiled, end_offset, end_is_known=end_is_known)
        assert found(spoiled, result) == [batch for batch in batches if batch in spoiled]
        assert bool(result.damage) == (
            spoiled not in (b"".join(batches[:n]) for n in range(len(batches) + 1))
        )
        assert result.end_offset <= end_offset


def test_a_segment_that_is_read_in_parts_is_surveyed_as_a_whole_one(tmp_path: Path) -> None:
    data = b"".join(batch(BASE_OFFSET + each, size=3000) for each in range(200))
    spoiled = data[:200_000] + bytes(600) + data[200_600:]
    result = look(tmp_path / "segment", spoiled, BASE_OFFSET + 200)
    assert len(result.damage) == 1
    assert len(found(spoiled, result)) == 199


def batch(offset: int, epoch: int = FIRST_EPOCH, *, size: int = 50, value: bytes = b"") -> bytes:
    return bytes(build_batch([Record(value=value or b"x" * size)], base_offset=offset, leader_epoch=epoch))


def lost(*batches: bytes, tmp_path: Path, end: int, epoch: int = -1, known: bool = True) -> list[int]:
    """Which of some batches of the same size are damage."""
    data, size = b"".join(batches), len(batches[0])
    result = look(tmp_path / "segment", data, end, end_epoch=epoch, end_is_known=known)
    return [at // size for each in result.damage for at in range(each.position, each.end_position, size)]


@pytest.mark.parametrize("wrong", [999, 1000, 1003, 1009])
def test_an_offset_that_does_not_fit_makes_damage_of_one_batch(tmp_path: Path, wrong: int) -> None:
    batches = [batch(1000), batch(1001), batch(wrong), *map(batch, range(1003, 1010))]
    assert lost(*batches, tmp_path=tmp_path, end=1010) == [2]


@pytest.mark.parametrize("known", [True, False])
def test_the_last_batch_does_not_begin_after_the_end(tmp_path: Path, known: bool) -> None:
    assert lost(batch(1000), batch(1033), tmp_path=tmp_path, end=1002, known=known) == [1]


@pytest.mark.parametrize("wrong", [2, 7, 1 << 30])
def test_an_epoch_between_neighbours_that_are_in_order_is_held_against_them(
    tmp_path: Path, wrong: int
) -> None:
    batches = [batch(1000, 3), batch(1001, wrong), batch(1002, 4)]
    assert lost(*batches, tmp_path=tmp_path, end=1003) == [1]
    assert lost(*batches[:2], tmp_path=tmp_path, end=1002, epoch=4) == [1]
    assert lost(*batches[:2], tmp_path=tmp_path, end=1002) == []
    bad = bytes(len(batches[0]))
    assert lost(*batches[:2], bad, tmp_path=tmp_path, end=1003, epoch=4) == [1, 2]


def test_epochs_that_fall_prove_nothing(tmp_path: Path) -> None:
    batches = [batch(1000, 9), batch(1001, 9), batch(1002, 4), batch(1003, 4)]
    assert lost(*batches, tmp_path=tmp_path, end=1004) == []


def test_a_batch_within_a_record_is_not_one_of_the_log(tmp_path: Path) -> None:
    outer = bytearray(batch(1001, value=batch(1001, value=b"of another log") + b"rest"))
    outer[-2] ^= 1
    data = batch(1000) + bytes(outer) + batch(1002)
    result = look(tmp_path / "segment", data, 1003)
    assert found(data, result) == [batch(1000), batch(1002)]
    start = len(batch(1000))
    assert result.damage == [DamagedRange(start, start + len(outer), 1001, 1002)]
