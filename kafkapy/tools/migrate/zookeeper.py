"""A cluster's tree in ZooKeeper: written for Apache Kafka, read from it.

Kafka's brokers find their topics there (znodes.py has the paths). `/cluster/id` is written last. A broker
that starts on a tree without it gives the cluster another id. It then refuses the directory, whose
`meta.properties` names its own id, so that a half-written tree is never used. Writing the tree again where it
is there already changes nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kafkapy.configs.quotas import quotas
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import MetadataStoreError, Node, NodeStat
from kafkapy.process.log_text import listed
from kafkapy.tools.migrate.cluster import Cluster, cluster_nodes
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.settings import kept_quotas

_SECONDS: Final = 15.0
_NODES_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 500_000
"""ZooKeeper takes requests of up to 1 MB (jute.maxbuffer)."""

_ROOTS: Final = (
    "/cluster",
    znodes.TOPICS,
    znodes.TOPIC_CONFIGS,
    znodes.BROKER_CONFIGS,
    znodes.USER_CONFIGS,
    znodes.CLIENT_CONFIGS,
    znodes.IP_CONFIGS,
    znodes.PRODUCER_ID_BLOCK,
)
"""What makes a tree that of a cluster."""

_NOT_CARRIED: Final = {
    "/kafka-acl": "access control entries (there is no access control yet)",
    "/delegation_token/tokens": "delegation tokens",
}


class Found(NamedTuple):
    """What a tree in ZooKeeper says."""

    image: MetadataImage
    next_producer_id: int
    not_carried: list[str]


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A session with the ZooKeeper at HOST:PORT[,HOST:PORT…][/chroot].

    Raises:
        MigrationError: kazoo is not installed, or nothing answers.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    except ModuleNotFoundError:
        raise MigrationError("kazoo is not installed: pip install 'kafkapy-broker[zookeeper]'") from None
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what matters is said in the error
    hosts, _, chroot = address.partition("/")
    try:
        client = KazooClient(hosts=hosts, timeout=_SECONDS)
    except ValueError:
        raise MigrationError(
            f"{address} is no address of a ZooKeeper: say HOST:PORT or HOST:PORT/PATH."
        ) from None
    try:
        client.start(timeout=_SECONDS)
        if chroot:
            client.chroot = "/" + chroot.strip("/")
        yield client
    except KazooTimeoutError:
        raise MigrationError(
            f"ZooKeeper does not answer at {hosts}: start it, or correct the address."
        ) from None
    except KazooException as error:
        raise MigrationError(
            f"ZooKeeper at {hosts} failed: {type(error).__name__} {error}".rstrip()
        ) from None
    finally:
        client.stop()
        client.close()


def check_is_free(client: Any, cluster: Cluster) -> None:
    """See that the tree can become that of `cluster`.

    It can if it is empty, or is what an earlier run wrote.

    Raises:
        MigrationError: it is that of another cluster, or a broker uses it.
    """
    if client.exists(znodes.BROKER_IDS) and client.get_children(znodes.BROKER_IDS):
        raise MigrationError("A broker is registered in that ZooKeeper: stop it, or name another chroot.")
    ours = dict(cluster_nodes(cluster, epochs_on=1))
    for root in _ROOTS:
        for path, data, _ in _subtree(client, root):
            # A node without data is one that Kafka and ZooKeeper make for those below.
            if data and ours.get(path) != data:
                raise MigrationError(
                    f"That ZooKeeper has a cluster already ({path} is there): name a chroot that is free, "
                    "as in HOST:PORT/kafka."
                )


def write_tree(client: Any, cluster: Cluster) -> int:
    """Make the cluster's nodes; return how many there are.

    Raises:
        KazooException: ZooKeeper failed; the tree is not one that a broker takes.
    """
    client.ensure_path("/")
    *nodes, last = cluster_nodes(cluster, epochs_on=1)
    there = {path for root in _ROOTS for path, _, _ in _subtree(client, root)}
    missing = [
        (path, data)
        for path, data in nodes
        if path not in there and (path.startswith(_ROOTS) or not client.exists(path))
    ]
    for group in _groups(missing):
        transaction = client.transaction()
        for path, data in group:
            transaction.create(path, data)
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise result
    path, data = last
    if not client.exists(path):
        client.create(path, data)
    return len(nodes) + 1


def read_tree(client: Any) -> Found:
    """What a cluster's tree says.

    Raises:
        MigrationError: there is none, or it is damaged.
        KazooException: ZooKeeper failed.
    """
    tree: dict[str, Node] = {}
    for root in (*_ROOTS, znodes.DELETE_TOPICS):
        for path, data, version in _subtree(client, root):
            tree[path] = Node(data, NodeStat(version, 0, 0))
    if znodes.CLUSTER_ID not in tree:
        raise MigrationError(
            "There is no Kafka cluster in that ZooKeeper: is a chroot missing (HOST:PORT/kafka)?"
        )
    try:
        image = read_image(tree)
        block = tree.get(znodes.PRODUCER_ID_BLOCK)
        next_id = znodes.decode_producer_id_block(block.data).last + 1 if block and block.data else 0
    except MetadataStoreError as error:
        raise MigrationError(f"ZooKeeper's tree cannot be understood: {error}") from None
    if nameless := image.unfinished - image.topics.keys():
        raise MigrationError(
            f"These topics have no id yet: {listed(sorted(nameless))}. A controller of Kafka 2.8 or later"
            " gives them one."
        )
    deleted = [name for name in image.topics if znodes.delete_topic_path(name) in tree]
    not_carried = []
    for root, what in _NOT_CARRIED.items():
        count = sum(1 for path, _, _ in _subtree(client, root) if path.count("/") > root.count("/"))
        if count:
            not_carried.append(f"{what} ({root} in ZooKeeper)")
    values = {entity: quotas(configs) for entity, configs in image.client_quotas.configs.items()}
    kept, _ = kept_quotas(values)
    if others := sum(map(len, image.client_quotas.configs.values())) - sum(map(len, values.values())):
        not_carried.append(f"{others} SCRAM credentials or settings of users that are not known here")
    image = image.with_topics(deleted=deleted).with_client_quotas(kept)
    return Found(image, next_id, not_carried)


def _subtree(client: Any, root: str) -> Iterator[tuple[str, bytes, int]]:
    """The nodes from `root` down, parents first, with data and version."""
    from kazoo.exceptions import NoNodeError

    try:
        data, stat = client.get(root)
        names = client.get_children(root)
    except NoNodeError:
        return
    yield root, data or b"", stat.version
    for name in sorted(names):
        yield from _subtree(client, f"{root}/{name}")


def _groups(nodes: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    group: list[tuple[str, bytes]] = []
    size = 0
    for path, data in nodes:
        group.append((path, data))
        size += len(path) + len(data)
        if len(group) == _NODES_AT_ONCE or size > _BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
