"""What only Apache Kafka writes: KRaft's metadata, messages of formats 0 and 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.tools.check.finding import Severity
from tests.tools.check.directories import findings, flip, stopped

_HEADER, _FOOTER = (0).to_bytes(2, "big") + b"\0\3", (0).to_bytes(2, "big") + b"\0\4"


def control(key: bytes, offset: int) -> bytes:
    return bytes(
        build_batch([Record(timestamp=1, key=key, value=b"\0\0\0")], base_offset=offset, control=True)
    )


def kraft_directory(root: Path) -> Path:
    """A log directory with a metadata log, a snapshot of it, and the state of the quorum."""
    path = stopped(root).parent / "__cluster_metadata-0"
    path.mkdir()
    records = [
        build_batch([Record(timestamp=1, value=b"x" * 30)], base_offset=n, leader_epoch=1) for n in range(4)
    ]
    (path / f"{0:020d}.log").write_bytes(b"".join(records))
    snapshot = control(_HEADER, 0) + records[1] + control(_FOOTER, 2)
    (path / f"{3:020d}-{1:010d}.checkpoint").write_bytes(snapshot)
    (path / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":1}')
    (path / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return path


def test_metadata_that_is_whole_has_no_findings(tmp_path: Path) -> None:
    assert findings(kraft_directory(tmp_path).parent) == []


@pytest.mark.parametrize("position", [0, 70, 90])
def test_a_damaged_metadata_log_is_damage_although_no_checkpoint_speaks_of_it(
    tmp_path: Path, position: int
) -> None:
    path = kraft_directory(tmp_path)
    flip(path / f"{0:020d}.log", 98 + position, 0x10)
    found = findings(path.parent)
    assert {each.severity for each in found} == {Severity.DAMAGED}
    assert found[0].position == 98


def test_a_torn_metadata_log_is_cut(tmp_path: Path) -> None:
    path = kraft_directory(tmp_path)
    log = path / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-5])
    [found] = findings(path.parent)
    assert found.severity is Severity.REPAIRED


@pytest.mark.parametrize("cut", [1, 100])
def test_a_snapshot_without_its_end_is_damage(tmp_path: Path, cut: int) -> None:
    path = kraft_directory(tmp_path)
    [snapshot] = path.glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:-cut])
    [found] = findings(path.parent)
    assert found.path == str(snapshot)
    assert found.severity is Severity.DAMAGED


def test_a_damaged_snapshot_and_quorum_state_are_found(tmp_path: Path) -> None:
    path = kraft_directory(tmp_path)
    [snapshot] = path.glob("*.checkpoint")
    flip(snapshot, 130)
    (path / "quorum-state").write_text("[]")
    assert {Path(each.path).name for each in findings(path.parent)} == {snapshot.name, "quorum-state"}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_messages_of_old_clients_are_no_damage_but_said(
    tmp_path: Path, magic: int, codec: Compression
) -> None:
    path = stopped(tmp_path).parent / "old-0"
    path.mkdir()
    records = [Record(offset=n, timestamp=1, value=b"v" * 20) for n in range(6)]
    log = path / f"{0:020d}.log"
    log.write_bytes(build_message_set(records, magic, compression=codec))
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).touch()
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    [found] = findings(path.parent)
    assert found.severity is Severity.HARMLESS
    assert f"format v{magic}" in found.what
    flip(log, log.stat().st_size - 3)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        with (path.parent / name).open("a") as file:
            file.write("old 0 6\n")
        text = (path.parent / name).read_text()
        (path.parent / name).write_text(text.replace("0\n1\n", "0\n2\n", 1))
    assert Severity.DAMAGED in {each.severity for each in findings(path.parent)}
