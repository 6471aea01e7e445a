"""The start of a broker on a tree that it shares with others: session, id, replicas."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.store import MetadataStore, MetadataStoreError, OutcomeUnknownError
from kafkapy.protocol.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.metadata.zookeeper_access import ZooKeeperAccess

NAMED: Final = 3
"""How many lost replicas a message names."""

logger = logging.getLogger(__name__)


async def open_zookeeper(settings: Mapping[str, Any], access: ZooKeeperAccess | None = None) -> MetadataStore:
    """A session with the ZooKeeper that the settings `zookeeper.*` name.

    `access` says how the broker comes in there; None: as everybody does.

    Raises:
        MetadataStoreError: kazoo is not installed, or no usable ZooKeeper answers, or it refuses the login.
    """
    try:
        from kafkapy.metadata.zookeeper import ZooKeeperStore
        from kafkapy.metadata.zookeeper_access import EVERYBODY

        access = access or EVERYBODY
        if access.login is not None:
            import puresasl  # noqa: F401  # kazoo would end its thread without it
    except ModuleNotFoundError as error:
        if error.name == "puresasl":
            raise MetadataStoreError(
                "zookeeper.sasl.jaas.config is set, and pure-sasl is not installed:"
                " pip install '.[zookeeper]' in a checkout."
            ) from None
        if error.name != "kazoo":
            raise
        raise MetadataStoreError(
            "zookeeper.connect is set, and kazoo is not installed: pip install '.[zookeeper]' in a checkout."
            " To run the broker alone, without ZooKeeper, add --set zookeeper.connect="
        ) from None
    session_ms: int = settings["zookeeper.session.timeout.ms"]
    connection_ms: int | None = settings["zookeeper.connection.timeout.ms"]
    return await ZooKeeperStore.open(
        settings["zookeeper.connect"],
        session_timeout=session_ms / 1000,
        connection_timeout=(session_ms if connection_ms is None else connection_ms) / 1000,
        requests_at_once=settings["zookeeper.max.in.flight.requests"],
        access=access,
    )


async def choose_broker_id(
    store: MetadataStore, settings: Mapping[str, Any], configured: int, stored: int | None
) -> int:
    """The id in the settings, or in the data directories, or a new one.

    A new one is above reserved.broker.max.id. Source: KafkaServer.getOrGenerateBrokerId.

    Args:
        configured: broker.id or node.id; -1 if they are not set.
        stored: the id in meta.properties; None if the data directories are new.

    Raises:
        MetadataStoreError: there is none, and none may be generated; or the store failed.
    """
    if configured >= 0:
        return configured
    if stored is not None:
        return stored
    if not settings["broker.id.generation.enable"]:
        raise MetadataStoreError(
            "The broker has no id, and broker.id.generation.enable is false. Set broker.id."
        )
    while True:
        try:
            count = await store.set(znodes.BROKER_SEQUENCE, b"")
        except OutcomeUnknownError:
            continue  # a number may be lost
        return int(settings["reserved.broker.max.id"]) + count


async def require_others_in_sync(
    store: MetadataStore, image: MetadataImage, broker_id: int, directories: str
) -> None:
    """See that others have what a broker with empty log directories has lost.

    Its disk was lost, or is not mounted. Where a live broker is in sync too, the controller takes this one
    out of the in-sync replicas, and it fetches everything again. Elsewhere it would be elected: it would lead
    with an empty log, and all others would truncate theirs. Topics that are marked for deletion do not count.

    Args:
        image: as it was read before this broker registers.
        directories: the paths of the log directories.

    Raises:
        MetadataStoreError: no live broker has a partition in sync; or the store failed.
    """
    deleted = set(await store.children(znodes.DELETE_TOPICS))
    replicas = 0
    lost: list[TopicPartition] = []
    others: set[int] = set()
    live = image.brokers.keys() - {broker_id}
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            replicas += broker_id in state.replicas
            if broker_id in state.isr and live.isdisjoint(state.isr) and topic.name not in deleted:
                lost.append(TopicPartition(topic.name, index))
                others.update(state.isr)
    if not lost:
        if replicas:
            logger.warning(
                "%s: nothing is there, and this broker has %d replicas, which are now fetched from their"
                " leaders. If a disk is not mounted, stop the broker, empty the directory and mount it.",
                directories,
                replicas,
            )
        return
    others.discard(broker_id)
    named = ", ".join(map(str, lost[:NAMED])) + ", …" * (len(lost) > NAMED)
    first = f" start broker {' or '.join(map(str, sorted(others)))} first," if others else ""
    raise MetadataStoreError(
        f"{directories}: nothing is there, but broker {broker_id} was in sync for {named}, and no running"
        f" broker is. Mount its disk. If that is lost,{first} let another replica lead"
        " (kafka-leader-election --election-type unclean), or delete the topic. To begin with empty logs and"
        f" lose the records, write broker.id={broker_id} to meta.properties there."
    )
