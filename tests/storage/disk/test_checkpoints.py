"""The checkpoint files, in Kafka's own bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.protocol.types import TopicPartition, uuid_from_text
from kafkapy.storage.disk.checkpoints import (
    CorruptCheckpointError,
    MetaProperties,
    format_leader_epochs,
    read_clean_shutdown_epoch,
    read_leader_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from kafkapy.storage.disk.files import FileSystem

FILES = FileSystem()
TOPIC_ID = uuid_from_text("kJ3Zl0nVQ2y2rE0jY5mJ8A")


def test_offsets_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    write_offsets(FILES, path, {TopicPartition("b", 1): 7, TopicPartition("a.x", 0): 2**62})
    assert Path(path).read_bytes() == b"0\n2\nb 1 7\na.x 0 4611686018427387904\n"
    assert read_offsets(FILES, path) == {TopicPartition("b", 1): 7, TopicPartition("a.x", 0): 2**62}


def test_no_offsets_are_an_empty_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    write_offsets(FILES, path, {})
    assert Path(path).read_bytes() == b"0\n0\n"
    assert read_offsets(FILES, path) == {}


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_checkpoint_has_no_entries(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    assert read_offsets(FILES, str(path)) == {}
    assert read_leader_epochs(FILES, str(path)) == []


def test_any_blanks_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"0\r\n1\r\nt \t 0  5\r\n")
    assert read_offsets(FILES, str(path)) == {TopicPartition("t", 0): 5}


DAMAGED = [
    b"0",
    b"0\n",
    b"1\n0\n",
    b"x\n0\n",
    b"0\n2\nt 0 5\n",
    b"0\n0\nt 0 5\n",
    b"0\n1\nt 0\n",
    b"0\n1\nt 0 5 6\n",
    b"0\n1\n\n",
    b"0\n1\nt 0 1_000\n",
    b"0\n1\nt 0 -5\n",
    b"0\n1\nt -1 5\n",
    b"0\n1\nt 0 9223372036854775808\n",
    b"0\n1\nt 0 99999999999999999999999999\n",
    b"0\n-1\n",
    b"0\n1\nt 0 \xd9\xa3\n",
    b"0\n1\nt\xff 0 5\n",
    b"\0\0\0\0\0\0\0\0",
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_offsets(FILES, str(path))
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_leader_epochs(FILES, str(path))


def test_leader_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(format_leader_epochs([(0, 0), (3, 17)]))
    assert path.read_bytes() == b"0\n2\n0 0\n3 17\n"
    assert read_leader_epochs(FILES, str(path)) == [(0, 0), (3, 17)]


def test_partition_metadata_holds_the_topic_id(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert read_partition_metadata(FILES, str(path)) is None
    write_partition_metadata(FILES, str(path), TOPIC_ID)
    assert path.read_bytes() == b"version: 0\ntopic_id: kJ3Zl0nVQ2y2rE0jY5mJ8A"
    assert read_partition_metadata(FILES, str(path)) == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"version: 1\ntopic_id: kJ3Zl0nVQ2y2rE0jY5mJ8A",
        b"version: 0\ntopic_id: kJ3Zl0nVQ2y2rE0jY5mJ8",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"\0" * 43,
        b"\xff",
    ],
)
def test_damaged_partition_metadata_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_partition_metadata(FILES, str(path))


def test_meta_properties_of_zookeeper_mode_are_kept_with_what_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(
        b"#\n#Tue Nov 21 10:34:05 UTC 2026\nbroker.id=5\nversion=0\n"
        b"cluster.id=kJ3Zl0nVQ2y2rE0jY5mJ8A\nx.y=z\n"
    )
    meta = read_meta_properties(FILES, str(path))
    assert meta == MetaProperties(0, "kJ3Zl0nVQ2y2rE0jY5mJ8A", 5, None, {"x.y": "z"})
    write_meta_properties(FILES, str(path), meta)
    lines = path.read_text().splitlines()
    assert lines[0] == "#"
    assert lines[1].startswith("#")
    assert lines[2:] == ["broker.id=5", "cluster.id=kJ3Zl0nVQ2y2rE0jY5mJ8A", "version=0", "x.y=z"]
    assert read_meta_properties(FILES, str(path)) == meta


def test_meta_properties_of_kraft_have_a_node_id_and_a_directory_id(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    meta = MetaProperties(1, "c", 2, TOPIC_ID)
    write_meta_properties(FILES, str(path), meta)
    assert path.read_text().splitlines()[2:] == [
        "cluster.id=c",
        "directory.id=kJ3Zl0nVQ2y2rE0jY5mJ8A",
        "node.id=2",
        "version=1",
    ]
    assert read_meta_properties(FILES, str(path)) == meta


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0\0",
        b"version=2\ncluster.id=c\n",
        b"version=1\nnode.id=0\n",
        b"version=1\ncluster.id=c\n",
        b"version=0\ncluster.id=c\nbroker.id=x\n",
        b"version=0\ncluster.id=c\ndirectory.id=short\n",
        b"cluster.id=\\u00\n",
        b"\xff\xfe",
    ],
)
def test_damaged_meta_properties_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_meta_properties(FILES, str(path))


def test_the_clean_shutdown_marker_speaks_once(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert take_clean_shutdown(FILES, str(path)) is False
    write_clean_shutdown(FILES, str(path), 42)
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert read_clean_shutdown_epoch(FILES, str(path)) == 42
    assert take_clean_shutdown(FILES, str(path)) is True
    assert take_clean_shutdown(FILES, str(path)) is False
    assert read_clean_shutdown_epoch(FILES, str(path)) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"brokerEpoch":"x"}'])
def test_an_unreadable_clean_shutdown_marker_still_means_a_clean_stop(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(content)
    assert read_clean_shutdown_epoch(FILES, str(path)) is None
    assert take_clean_shutdown(FILES, str(path)) is True
