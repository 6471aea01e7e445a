"""The quick way past good batches finds the damage that the slow way finds."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from kafkapy.protocol.records import Record, build_batch
from kafkapy.storage.damage import survey as survey_module
from kafkapy.storage.damage.survey import Survey, survey
from kafkapy.storage.disk.files import FileSystem

BASE_OFFSET = 1000
HEADER_FIELDS = {
    "base offset": (0, 8),
    "length": (8, 4),
    "leader epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
}


def segment(chance: random.Random) -> tuple[bytearray, list[int], int]:
    """Batches with gaps and rising epochs; where each begins, and the offset behind the last."""
    data, starts, offset, epoch = bytearray(), [], BASE_OFFSET, 0
    for _ in range(chance.randrange(1, 30)):
        offset += chance.choice((0, 0, 0, 5))
        epoch += chance.choice((0, 0, 1))
        values = [chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(1, 5))]
        starts.append(len(data))
        data += build_batch([Record(value=each) for each in values], base_offset=offset, leader_epoch=epoch)
        offset += len(values)
    return data, starts, offset


def damage(data: bytearray, starts: list[int], chance: random.Random) -> None:
    for _ in range(chance.randrange(4)):
        start = chance.choice(starts)
        match chance.randrange(5):
            case 0 if start < len(data):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 1 if start + 61 <= len(data):
                at, size = HEADER_FIELDS[chance.choice(list(HEADER_FIELDS))]
                data[start + at : start + at + size] = chance.randbytes(size)
            case 2 if start + 61 <= len(data):
                (offset,) = struct.unpack_from(">q", data, start)
                struct.pack_into(">q", data, start, offset + chance.choice((-7, -1, 1, 7)))
            case 3:
                data[start : start + chance.randrange(200)] = bytes(chance.randrange(100))
            case 4 if len(data) > 100:
                del data[-chance.randrange(1, 90) :]


def look(path: Path, start: int, end_offset: int, enough: int, sure_to: int) -> Survey:
    files = FileSystem()
    file = files.open(str(path))
    try:
        return survey(
            files,
            file,
            start,
            path.stat().st_size,
            base_offset=BASE_OFFSET,
            expected=BASE_OFFSET,
            end_offset=end_offset,
            enough=enough,
            sure_to=sure_to,
        )
    finally:
        file.release()


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_find_the_same(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    path = tmp_path / "segment"
    found = 0
    for _ in range(50):
        data, starts, end_offset = segment(chance)
        damage(data, starts, chance)
        path.write_bytes(data)
        arguments = (
            path,
            chance.choice((0, 0, min(chance.choice(starts), len(data)))),
            end_offset,
            chance.choice((1 << 62, chance.randrange(1, 20_000))),
            chance.choice((-1, BASE_OFFSET, chance.randrange(BASE_OFFSET, end_offset + 1))),
        )
        quick = look(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(survey_module._Look, "run", lambda self, *state: state)
            assert look(*arguments) == quick
        found += bool(quick.damage)
    assert 10 < found < 50
