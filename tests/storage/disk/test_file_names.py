"""Names of files in a partition's directory: what is read, and what Apache Kafka reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kafkapy
from kafkapy.storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    FileName,
    KraftSnapshotName,
    file_name,
    find_logs,
    kraft_snapshot_name,
    parse_file_name,
    parse_kraft_snapshot_name,
    path_stem,
    snapshot_offset,
)

AT_42 = "00000000000000000042"


@pytest.mark.parametrize("suffix", [*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX])
@pytest.mark.parametrize("mark", ["", ".deleted", ".cleaned", ".swap"])
def test_every_file_of_a_segment_is_known_by_its_name(suffix: str, mark: str) -> None:
    assert parse_file_name(AT_42 + suffix + mark) == FileName(42, suffix, mark)


@pytest.mark.parametrize("offset", [0, 42, (1 << 63) - 1])
def test_a_name_that_is_made_is_read_again(offset: int) -> None:
    name = file_name(offset, LOG_SUFFIX)
    assert len(name) == 20 + len(LOG_SUFFIX)
    assert parse_file_name(name) == FileName(offset, LOG_SUFFIX, "")
    assert path_stem("/data/orders-0", offset) + LOG_SUFFIX == f"/data/orders-0/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "42.log",  # Kafka reads it as offset 42, and then opens another file
        "0" + AT_42 + ".log",
        "x" * 20 + ".log",
        "\u0660" * 20 + ".log",
        AT_42,
        AT_42 + "log",
        AT_42 + ".log.swap.deleted",
        AT_42 + ".log.tmp",
        AT_42 + ".checkpoint",
        AT_42 + ".log\n",
        "leader-epoch-checkpoint",
    ],
)
def test_other_names_are_no_files_of_segments(name: str) -> None:
    assert parse_file_name(name) is None
    assert snapshot_offset(name) is None
    assert find_logs([name]) == []


def test_logs_are_found_in_offset_order_without_those_that_do_not_count() -> None:
    names = [file_name(offset, ".log") for offset in (1000, 7, 0)]
    marked = [file_name(3, ".log") + mark for mark in (".deleted", ".cleaned", ".swap")]
    assert find_logs([*names, *marked, file_name(3, ".index")]) == [
        (0, names[2]),
        (7, names[1]),
        (1000, names[0]),
    ]


def test_only_a_snapshot_that_counts_has_an_offset() -> None:
    assert snapshot_offset(AT_42 + ".snapshot") == 42
    for name in (".snapshot.tmp", ".snapshot.deleted", ".log"):
        assert snapshot_offset(AT_42 + name) is None


@pytest.mark.parametrize(
    ("name", "is_complete"),
    [
        (f"{AT_42}-0000000003.checkpoint", True),
        (f"{AT_42}-0000000003.checkpoint.deleted", False),
        (f"{AT_42}-0000000003-1234567890123456789.checkpoint.part", False),  # Files.createTempFile
        (f"{AT_42}-0000000003.checkpoint.part", False),
    ],
)
def test_a_kraft_snapshot_has_its_end_and_epoch_in_its_name(name: str, is_complete: bool) -> None:
    assert parse_kraft_snapshot_name(name) == KraftSnapshotName(42, 3, is_complete)


def test_a_name_that_is_made_for_a_kraft_snapshot_is_read_again() -> None:
    assert parse_kraft_snapshot_name(kraft_snapshot_name(42, 3)) == KraftSnapshotName(42, 3, True)


@pytest.mark.parametrize(
    "name",
    ["bootstrap.checkpoint", f"{AT_42}-3.checkpoint", f"{AT_42}.checkpoint", f"{AT_42}-0000000003.part"],
)
def test_other_names_are_no_kraft_snapshots(name: str) -> None:
    assert parse_kraft_snapshot_name(name) is None


def test_no_other_module_spells_a_suffix_or_a_pattern_of_names() -> None:
    marks = {DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX}
    suffixes = {*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, *marks}
    package = Path(kafkapy.__path__[0])
    found = [
        f"{path}:{node.lineno}: {node.value!r}"
        for folder in (package / "storage", package / "tools", package / "replicas")
        for path in folder.resolve().rglob("*.py")
        if path.name not in ("file_names.py", "directory_names.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value in suffixes or "[0-9]{20}" in node.value or "020d" in node.value
    ]
    assert found == []
