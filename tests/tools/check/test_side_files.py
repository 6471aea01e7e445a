"""What lies beside the segments: indexes, epochs, snapshots, checkpoints, ids, leftovers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.tools.check.finding import Finding, Severity
from tests.tools.check.directories import files, findings, flip, killed, partition_line, stopped

Damage = Callable[[Path], object]


def only(found: list[Finding], name: str) -> Finding:
    assert [Path(each.path).name for each in found] == [name], [each.text() for each in found]
    return found[0]


def largest(path: Path, suffix: str) -> Path:
    return max(files(path, suffix)[:-1], key=lambda each: each.stat().st_size)


# --- indexes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_written_anew(tmp_path: Path, suffix: str) -> None:
    path = stopped(tmp_path)
    index = largest(path, suffix)
    index.unlink()
    assert only(findings(path.parent), index.name).severity is Severity.REPAIRED


@pytest.mark.parametrize(("suffix", "position"), [(".index", -6), (".index", -1), (".timeindex", -5)])
def test_an_entry_that_points_astray_is_found(tmp_path: Path, suffix: str, position: int) -> None:
    path = stopped(tmp_path)
    index = largest(path, suffix)
    data = bytearray(index.read_bytes())
    data[position] += 1
    index.write_bytes(data)
    found = only(findings(path.parent), index.name)
    assert found.severity is Severity.DAMAGED
    assert "delete the file" in found.remedy


def test_an_entry_that_a_start_notices_when_it_looks_up_aborted_transactions_is_repaired(
    tmp_path: Path,
) -> None:
    path = stopped(tmp_path)
    index = largest(path, ".index")
    assert index.with_suffix(".txnindex").exists()
    flip(index, 7, 0x40)
    assert only(findings(path.parent), index.name).severity is Severity.REPAIRED


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_that_do_not_rise_are_found(tmp_path: Path, suffix: str) -> None:
    path = stopped(tmp_path)
    index = largest(path, suffix)
    size = 8 if suffix == ".index" else 12
    data = index.read_bytes()
    assert len(data) >= 3 * size
    index.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
    found = only(findings(path.parent), index.name)
    assert found.what == "has an entry (1) that does not rise"
    assert found.severity is Severity.REPAIRED


def test_an_index_behind_the_end_of_its_segment_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    index = largest(path, ".index")
    with index.open("ab") as file:
        file.write((2**30).to_bytes(4, "big") + (2**30).to_bytes(4, "big"))
    found = only(findings(path.parent), index.name)
    assert "after the end of the segment" in found.what
    assert found.severity is Severity.REPAIRED


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_odd_size_is_found(tmp_path: Path, suffix: str) -> None:
    path = stopped(tmp_path)
    index = files(path, suffix)[0]
    with index.open("ab") as file:
        file.write(b"abc")
    assert only(findings(path.parent), index.name).severity is Severity.REPAIRED


def test_indexes_that_the_next_start_writes_anyway_are_repaired(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    index = largest(path, ".index")
    flip(index, 7, 0x40)
    assert only(findings(path.parent), index.name).severity is Severity.REPAIRED


def test_aborted_transactions_missing_from_the_index_are_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    index = files(path, ".txnindex")[0]
    index.unlink()
    found = only(findings(path.parent), index.name)
    assert found.severity is Severity.DAMAGED
    assert "read_committed consumers would see its records" in found.what


@pytest.mark.parametrize("position", [9, 17, 25, 33])
def test_a_wrong_entry_of_the_transaction_index_is_found(tmp_path: Path, position: int) -> None:
    path = stopped(tmp_path)
    index = files(path, ".txnindex")[0]
    data = bytearray(index.read_bytes())
    data[position] += 1
    index.write_bytes(data)
    assert {Path(each.path).name for each in findings(path.parent)} == {index.name}


# --- beside the segments ------------------------------------------------------------------------------------


def test_a_damaged_producer_snapshot_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    newest, oldest = files(path, ".snapshot")[-1], files(path, ".snapshot")[0]
    flip(newest, 20)
    assert only(findings(path.parent), newest.name).severity is Severity.REPAIRED
    flip(newest, 20)
    flip(oldest, 20)
    assert only(findings(path.parent), oldest.name).severity is Severity.HARMLESS


def test_a_clean_stop_without_a_producer_snapshot_would_forget_producers(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    for snapshot in files(path, ".snapshot"):
        snapshot.unlink()
    [found] = findings(path.parent)
    assert found.severity is Severity.DAMAGED
    assert "no producer snapshot" in found.what


@pytest.mark.parametrize(
    ("content", "severity"),
    [
        ("rubbish", Severity.REPAIRED),
        ("0\n2\n0 0\n", Severity.REPAIRED),
        ("", Severity.DAMAGED),
        ("0\n2\n3 0\n1 40\n", Severity.DAMAGED),
        ("0\n1\n1 0\n", Severity.DAMAGED),
        ("0\n1\n0 0\n", Severity.DAMAGED),
    ],
)
def test_wrong_leader_epochs_are_found(tmp_path: Path, content: str, severity: Severity) -> None:
    path = stopped(tmp_path)
    (path / "leader-epoch-checkpoint").write_text(content)
    assert only(findings(path.parent), "leader-epoch-checkpoint").severity is severity


def test_an_epoch_that_begins_too_early_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    file = path / "leader-epoch-checkpoint"
    lines = file.read_text().splitlines()
    epoch, start = lines[3].split()
    lines[3] = f"{epoch} {int(start) - 3}"
    file.write_text("\n".join(lines) + "\n")
    assert only(findings(path.parent), file.name).severity is Severity.DAMAGED


@pytest.mark.parametrize(
    "content", [b"rubbish", b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", b"\xff"]
)
def test_a_wrong_topic_id_is_found(tmp_path: Path, content: bytes) -> None:
    path = stopped(tmp_path)
    (path / "partition.metadata").write_bytes(content)
    assert only(findings(path.parent), "partition.metadata").severity is Severity.REPAIRED


def test_a_missing_topic_id_is_harmless(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    (path / "partition.metadata").unlink()
    assert only(findings(path.parent), "partition.metadata").severity is Severity.HARMLESS


# --- the log directory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "meta.properties",
    ],
)
def test_a_file_of_the_directory_that_cannot_be_read_is_found(tmp_path: Path, name: str) -> None:
    path = stopped(tmp_path)
    (path.parent / name).write_bytes(b"\x00\xff")
    assert only(findings(path.parent), name).severity is Severity.REPAIRED


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("recovery-point-offset-checkpoint", Severity.DAMAGED),
        ("replication-offset-checkpoint", Severity.DAMAGED),
        ("log-start-offset-checkpoint", Severity.DAMAGED),
        ("cleaner-offset-checkpoint", Severity.REPAIRED),
    ],
)
def test_a_checkpoint_above_the_end_of_the_log_is_found(
    tmp_path: Path, name: str, severity: Severity
) -> None:
    path = stopped(tmp_path)
    (path.parent / name).write_text(partition_line(1_000_000))
    assert only(findings(path.parent), path.name).severity is severity


def test_lines_for_partitions_that_are_not_there_are_harmless(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    file = path.parent / "replication-offset-checkpoint"
    file.write_text(file.read_text().replace("0\n1\n", "0\n2\ngone 3 17\n", 1))
    found = only(findings(path.parent), file.name)
    assert found.severity is Severity.HARMLESS
    assert "gone-3" in found.what


_EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")
LEFTOVERS: dict[str, tuple[Damage, Severity]] = {
    "00000000000000000000.log.deleted": (lambda path: path.write_bytes(b"x"), Severity.HARMLESS),
    "00000000000000000000.log.cleaned": (lambda path: path.write_bytes(b"x"), Severity.HARMLESS),
    "leader-epoch-checkpoint.tmp": (lambda path: path.write_bytes(b"x"), Severity.HARMLESS),
    "00000000000000000001.index": (lambda path: path.write_bytes(b""), Severity.REPAIRED),
    "00000000000000000001.snapshot": (lambda path: path.write_bytes(_EMPTY_SNAPSHOT), Severity.HARMLESS),
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_leftovers_are_found(tmp_path: Path, name: str) -> None:
    path = stopped(tmp_path)
    make, severity = LEFTOVERS[name]
    make(path / name)
    assert only(findings(path.parent), name).severity is severity


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_directories_that_are_about_to_go_are_harmless(tmp_path: Path, suffix: str) -> None:
    path = stopped(tmp_path)
    left = path.parent / f"old-0.{'0' * 32}-{suffix}"
    left.mkdir()
    (left / "partition.metadata").write_bytes((path / "partition.metadata").read_bytes())
    found = [each for each in findings(path.parent) if each.severity is Severity.HARMLESS]
    assert only(found, left.name)


def test_a_partition_in_two_directories_is_found(tmp_path: Path) -> None:
    one = stopped(tmp_path / "one")
    two = stopped(tmp_path / "two")
    found = only(findings(one.parent, two.parent), two.name)
    assert found.severity is Severity.DAMAGED
    assert str(one.parent) in found.what


def test_partitions_of_one_topic_with_different_ids_are_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    for partition in (1, 2):
        other = path.parent / f"events-{partition}"
        other.mkdir()
        (other / f"{0:020d}.log").touch()
        text = (path / "partition.metadata").read_text()
        (other / "partition.metadata").write_text(text if partition == 1 else text[:-22] + "x" * 21 + "A")
    assert only(findings(path.parent), "events-2").severity is Severity.REPAIRED


def test_metadata_that_sqlite_cannot_read_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    (path.parent / "metadata.db").write_bytes(b"no database at all" * 100)
    assert only(findings(path.parent), "metadata.db").severity is Severity.DAMAGED
