"""Whose a directory is must be the same in all places.

These are meta.properties, metadata.db and the other directories.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.inprocess import Broker
from kafkapy.tools.check.finding import Finding, Severity
from tests.tools.check.directories import findings

OTHER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    """The log directories of a broker that stopped in order."""
    homes = [tmp_path / "one", tmp_path / "two"]
    with Broker(data_dir=homes[0], config={"log.dirs": ",".join(map(str, homes))}):
        pass
    return homes


def set_property(home: Path, name: str, value: str) -> str:
    """Change a line of meta.properties; what it was."""
    path = home / "meta.properties"
    lines = path.read_text().splitlines()
    before = next(line for line in lines if line.startswith(f"{name}="))
    path.write_text("\n".join(f"{name}={value}" if line == before else line for line in lines))
    return before.partition("=")[2]


def only(found: list[Finding], home: Path) -> Finding:
    assert [each.path for each in found] == [str(home / "meta.properties")], [each.text() for each in found]
    return found[0]


def test_directories_of_one_broker_agree(homes: list[Path]) -> None:
    assert not findings(*homes)


@pytest.mark.parametrize("which", [0, 1])
def test_a_directory_of_another_cluster_than_the_metadata_is_found(homes: list[Path], which: int) -> None:
    own = set_property(homes[which], "cluster.id", OTHER)
    found = only(findings(*homes), homes[which])
    assert found.severity is Severity.DAMAGED
    assert found.what == f"it names the cluster {OTHER}, and {homes[0]}/metadata.db the cluster {own}"


def test_a_directory_of_another_broker_is_found(homes: list[Path]) -> None:
    set_property(homes[1], "broker.id", "7")
    assert only(findings(*homes), homes[1]).severity is Severity.DAMAGED


def test_an_id_of_which_a_character_has_rotted_is_repaired(homes: list[Path]) -> None:
    own = set_property(homes[0], "cluster.id", OTHER)
    set_property(homes[0], "cluster.id", own[:5] + ("a" if own[5] != "a" else "b") + own[6:])
    assert only(findings(*homes), homes[0]).severity is Severity.REPAIRED


def test_directories_of_two_brokers_may_be_checked_at_once(homes: list[Path], tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "three", config={"node.id": "3"}):
        pass
    assert not findings(*homes, tmp_path / "three")
