"""What an export finds in ZooKeeper: nothing, its own earlier attempt, or another cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.tools.migrate.exporting import export_copy, export_in_place
from kafkapy.tools.migrate.importing import MetadataPlace, import_copy
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.zookeeper import connected
from tests.tools.migrate.harness import open_directory, write_directory

pytestmark = pytest.mark.jvm


def export(home: Path, target: Path, zookeeper: str) -> None:
    export_copy([home], [target], zookeeper, lambda *_: None)


def test_a_tree_that_is_half_there_is_completed(tmp_path: Path, zookeeper: str) -> None:
    write_directory(tmp_path / "home")
    export(tmp_path / "home", tmp_path / "one", zookeeper)
    with connected(zookeeper) as client:
        client.delete("/cluster/id")
        client.delete("/config/topics/orders")
        export(tmp_path / "home", tmp_path / "two", zookeeper)
        assert client.exists("/cluster/id")
        assert client.exists("/config/topics/orders")


def test_another_cluster_is_left_alone(tmp_path: Path, zookeeper: str) -> None:
    for name in ("home", "other"):
        write_directory(tmp_path / name)
    export(tmp_path / "home", tmp_path / "one", zookeeper)
    with pytest.raises(MigrationError, match="already has a cluster"):
        export(tmp_path / "other", tmp_path / "two", zookeeper)
    assert not (tmp_path / "two").exists()
    export(tmp_path / "other", tmp_path / "two", f"{zookeeper}/another")


def test_an_export_in_place_comes_back_with_what_zookeeper_has(tmp_path: Path, zookeeper: str) -> None:
    before = write_directory(tmp_path / "home")
    export_in_place([tmp_path / "home"], zookeeper)
    place = MetadataPlace(zookeeper=zookeeper)
    import_copy([tmp_path / "home"], [tmp_path / "back"], place, lambda *_: None)
    assert open_directory(tmp_path / "back") == before


def test_a_path_without_a_cluster_is_refused(tmp_path: Path, zookeeper: str) -> None:
    write_directory(tmp_path / "home")
    export_in_place([tmp_path / "home"], None)
    place = MetadataPlace(zookeeper=zookeeper)
    with pytest.raises(MigrationError, match="no Kafka cluster in that ZooKeeper"):
        import_copy([tmp_path / "home"], [tmp_path / "back"], place, lambda *_: None)


def test_the_zookeeper_of_another_cluster_is_refused(tmp_path: Path, zookeeper: str) -> None:
    for name in ("home", "other"):
        write_directory(tmp_path / name)
        export_in_place([tmp_path / name], zookeeper if name == "other" else None)
    with pytest.raises(MigrationError, match="the directory belongs to"):
        import_copy([tmp_path / "home"], [tmp_path / "back"], MetadataPlace(zookeeper), lambda *_: None)
