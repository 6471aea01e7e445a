"""The secret of salts is carried where there is a place for it: with ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import Node, NodeStat
from kafkapy.tools.migrate.cluster import Cluster, KnownCluster, cluster_nodes
from kafkapy.tools.migrate.import_plan import plan_import
from kafkapy.tools.migrate.source import Source
from tests.tools.migrate.test_import_plan import make_directory

SECRET = b"a secret"


def written(image: MetadataImage) -> MetadataImage:
    """The metadata in the tree that is written of other metadata."""
    nodes = cluster_nodes(Cluster(1, image, 0))
    return read_image({path: Node(data, NodeStat(0, 0, 0)) for path, data in nodes})


def test_an_export_to_zookeeper_has_the_secret() -> None:
    assert written(MetadataImage(cluster_id="c", salt_secret=SECRET)).salt_secret == SECRET


def test_an_import_from_zookeeper_keeps_the_secret(tmp_path: Path) -> None:
    with Source([make_directory(tmp_path)]) as source:
        plan = plan_import(source, KnownCluster("ZooKeeper", salt_secret=SECRET))
    assert written(plan.cluster.image).salt_secret == SECRET


def test_metadata_without_the_secret_get_none_until_a_broker_makes_it(tmp_path: Path) -> None:
    with Source([make_directory(tmp_path)]) as source:
        plan = plan_import(source, KnownCluster("a metadata log"))
    assert written(plan.cluster.image).salt_secret == b""
