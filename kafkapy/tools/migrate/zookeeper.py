"""A cluster's tree in ZooKeeper: an export writes it for Apache Kafka, an import reads it.

Kafka's brokers find their topics in the tree (znodes.py has the paths). `/cluster/id` is written last. If a
broker starts on a tree without it, it makes a new cluster id, which differs from that in the directory's
`meta.properties`. So it does not start, and an incomplete tree is never used. If the tree is written again,
nothing changes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kafkapy.configs.quotas import quotas
from kafkapy.logs.text import listed
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import MetadataStoreError, Node, NodeStat
from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess
from kafkapy.tools.migrate.cluster import Cluster, cluster_nodes
from kafkapy.tools.migrate.credentials import credentials_in, with_credentials
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
    znodes.SALT_SECRET,
    znodes.ACLS,
    znodes.EXTENDED_ACLS,
    znodes.ACL_CHANGES,
    znodes.EXTENDED_ACL_CHANGES,
    znodes.DELEGATION_TOKEN,
    znodes.PRODUCER_ID_BLOCK,
)
"""The paths of a cluster's tree."""


class Found(NamedTuple):
    """The content of a tree in ZooKeeper."""

    image: MetadataImage
    next_producer_id: int
    not_carried: list[str]


@contextlib.contextmanager
def connected(address: str, access: ZooKeeperAccess = EVERYBODY) -> Iterator[Any]:
    """Open a session with the ZooKeeper at HOST:PORT[,HOST:PORT…][/chroot], and close it.

    Raises:
        MigrationError: kazoo is not installed, or ZooKeeper does not answer, refuses the login or fails.
    """
    try:
        from kazoo.exceptions import KazooException, NoAuthError, SessionClosedRequireSaslError
        from kazoo.handlers.threading import KazooTimeoutError

        from kafkapy.metadata.zookeeper_client import ZooKeeperClient
    except ModuleNotFoundError:
        raise MigrationError("kazoo is not installed: pip install '.[zookeeper]' in a checkout") from None
    log = logging.getLogger("kafkapy.metadata.kazoo")
    level = log.level
    hosts, _, chroot = address.partition("/")
    refusals: list[str] = []
    try:
        client = ZooKeeperClient(hosts, _SECONDS, access, refusals.append)
    except ValueError:
        raise MigrationError(
            f"{address} is not the address of a ZooKeeper: give HOST:PORT or HOST:PORT/PATH."
        ) from None
    try:
        log.setLevel(logging.CRITICAL)  # the error says what matters
        client.start(timeout=_SECONDS)
        if chroot:
            client.chroot = "/" + chroot.strip("/")
        yield client
    except KazooTimeoutError:
        if refusals:
            raise MigrationError(f"ZooKeeper at {hosts} refuses the login: {refusals[-1]}") from None
        raise MigrationError(
            f"ZooKeeper does not answer at {hosts}: start it, or correct the address."
        ) from None
    except (NoAuthError, SessionClosedRequireSaslError):
        raise MigrationError(
            f"ZooKeeper at {hosts} does not let you in there: give --zookeeper-config, the server.properties "
            "of a broker that it lets in."
        ) from None
    except KazooException as error:
        raise MigrationError(
            f"ZooKeeper at {hosts} failed: {type(error).__name__} {error}".rstrip()
        ) from None
    finally:
        client.stop()
        client.close()
        log.setLevel(level)


def check_is_free(client: Any, cluster: Cluster) -> None:
    """Check that the tree of `cluster` can be written.

    The tree must be empty, or have been written by an earlier run.

    Raises:
        MigrationError: the tree belongs to another cluster, or a broker uses it.
    """
    if client.exists(znodes.BROKER_IDS) and client.get_children(znodes.BROKER_IDS):
        raise MigrationError(
            "A broker is registered in that ZooKeeper: stop the broker, or name another chroot."
        )
    ours = dict(cluster_nodes(cluster, epochs_on=1))
    for root in _ROOTS:
        for path, data, _ in _subtree(client, root):
            # A node without data is only the parent of others.
            if data and ours.get(path) != data:
                raise MigrationError(
                    f"That ZooKeeper already has a cluster ({path} exists): name an unused chroot, such as "
                    "HOST:PORT/kafka."
                )


def write_tree(client: Any, cluster: Cluster, access: ZooKeeperAccess = EVERYBODY) -> int:
    """Write the cluster's nodes that are missing; return how many nodes it has.

    Raises:
        KazooException: ZooKeeper failed; no broker uses the incomplete tree.
    """
    from kafkapy.metadata.zookeeper_client import acl_of

    client.ensure_path("/", acl=acl_of(access, "/"))
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
            transaction.create(path, data, acl=acl_of(access, path))
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise result
    path, data = last
    if not client.exists(path):
        client.create(path, data, acl=acl_of(access, path))
    return len(nodes) + 1


def read_tree(client: Any) -> Found:
    """Return what a cluster's tree holds.

    Raises:
        MigrationError: there is no tree, or it is damaged.
        KazooException: ZooKeeper failed.
    """
    tree: dict[str, Node] = {}
    for root in (*_ROOTS, znodes.DELETE_TOPICS):
        for path, data, version in _subtree(client, root):
            tree[path] = Node(data, NodeStat(version, 0, 0))
    if znodes.CLUSTER_ID not in tree:
        raise MigrationError(
            "There is no Kafka cluster in that ZooKeeper: name its chroot, such as HOST:PORT/kafka."
        )
    try:
        image = read_image(tree)
        block = tree.get(znodes.PRODUCER_ID_BLOCK)
        next_id = znodes.decode_producer_id_block(block.data).last + 1 if block and block.data else 0
    except MetadataStoreError as error:
        raise MigrationError(f"The tree in ZooKeeper cannot be read: {error}") from None
    if nameless := image.unfinished - image.topics.keys():
        raise MigrationError(
            f"These topics have no id yet: {listed(sorted(nameless))}. Start Kafka 2.8 or later once: its "
            "controller gives them ids."
        )
    if gaps := [name for name, topic in image.topics.items() if not all(p.exists for p in topic.partitions)]:
        raise MigrationError(
            f"The numbers of the partitions of these topics have gaps, which cannot be carried: "
            f"{listed(sorted(gaps))}. Copy their records to other topics, and delete them."
        )
    deleted = [name for name in image.topics if znodes.delete_topic_path(name) in tree]
    not_carried = []
    values = {entity: quotas(configs) for entity, configs in image.client_quotas.configs.items()}
    credentials = credentials_in(image.client_quotas)
    kept, _ = kept_quotas(values)
    known = sum(map(len, (*values.values(), *credentials.values())))
    if others := sum(map(len, image.client_quotas.configs.values())) - known:
        not_carried.append(f"{others} unknown settings of users and clients")
    image = image.with_topics(deleted=deleted).with_client_quotas(with_credentials(kept, credentials))
    return Found(image, next_id, not_carried)


def _subtree(client: Any, root: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield `root` and the nodes below it, parents first, with data and version."""
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
