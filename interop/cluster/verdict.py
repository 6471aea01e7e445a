"""What must be true of a cluster and its clients after all faults are healed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, cast

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from interop.cluster.load import GROUP, Load
from interop.cluster.scene import BROKERS, Scene
from interop.support.waiting import wait_until
from kafkapy.inter_broker.peers import PeerAddress, PeerError, TcpPeers
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.crash.load import Committer, read_pass
from tests.promises.checker import check
from tests.promises.history import CommitFetched, Finding, Partition

_COMPLAINT: Final = re.compile(r" (ERROR|CRITICAL) |^Traceback|^\w+(Error|Exception):")
_EXCUSED: Final = re.compile(
    r"answered (LeaderAndIsr|UpdateMetadata|StopReplica)Request with STALE_(CONTROLLER|BROKER)_EPOCH"
    r"|: NOT_CONTROLLER; the broker tries again$"
    r"|(metadata|metadata cannot be changed|controller's election): .*The connection to ZooKeeper was lost"
    r"|: ZooKeeper has not answered for "
    r"|cannot take its leader's records, and fetches them again: INVALID_RECORD"
)
"""What brokers may say under these faults.

A controller was deposed, or ZooKeeper was gone. Or records were on their way to a paused follower, and their
leader truncated them meanwhile: what sendfile has sent is still in the page cache, and reads as zeros.
"""


def is_whole(scene: Scene) -> bool:
    """Whether each broker is registered, and shows all brokers and all replicas in sync.

    A client that asks any broker may meet one that was cut off, and shows what was before.
    """
    shown = [_ask(broker.address) for broker in scene.cluster]
    # Sessions may have ended of which brokers do not know yet.
    if scene.zookeepers.connections() < len(BROKERS) or not scene.is_registered():
        return False
    return all(each == shown[0] for each in shown) and all(
        len(brokers) == len(BROKERS)
        and all(leader >= 0 and len(in_sync) == len(BROKERS) for leader, in_sync in partitions.values())
        for brokers, partitions in shown
    )


_Shown = tuple[set[int], dict[tuple[str, int], tuple[int, set[int]]]]
"""Brokers, and the leader and the in-sync replicas of each partition."""


def _ask(address: tuple[str, int]) -> _Shown:
    async def ask() -> MetadataResponse:
        peer = TcpPeers(0).connect(PeerAddress(0, *address), "test")
        try:
            return cast("MetadataResponse", await peer.ask(MetadataRequest(topics=None), seconds=5))
        finally:
            peer.close()

    response = asyncio.run(ask())
    return {broker.node_id for broker in response.brokers}, {
        (str(topic.name), each.partition_index): (each.leader_id, set(each.isr_nodes))
        for topic in response.topics
        for each in topic.partitions
    }


def wait_until_whole(scene: Scene, timeout: float) -> None:
    wait_until(
        lambda: is_whole(scene),
        timeout=timeout,
        pause=0.2,
        ignoring=(PeerError, KazooException, KazooTimeoutError),
    )


def last_words(scene: Scene, load: Load) -> list[Finding]:
    """Let the clients finish, and everything be read once more; the anomalies of what they saw.

    The group must have committed the end of every partition.
    """
    servers, history = scene.cluster.bootstrap_servers, load.history
    load.end_producers()
    ends = read_pass(servers, "last", dict.fromkeys(load.partitions, 0), history)
    wait_until(lambda: load.has_read(ends), timeout=60)
    load.end_consumers()
    committer = Committer(GROUP, servers, history)
    for partition in load.partitions:
        committer.fetch(partition)
    committer.close()
    fetched: dict[Partition, int] = {
        event.partition: event.offset for event in history if isinstance(event, CommitFetched)
    }
    findings = check(history)
    assert fetched == ends
    return findings


def complaints(scene: Scene) -> list[str]:
    """Lines of the brokers' logs that no fault excuses."""
    return [
        line
        for broker in scene.cluster
        for line in broker.log_path.read_text(errors="replace").splitlines()
        if _COMPLAINT.search(line) and not _EXCUSED.search(line)
    ]


def wait_until_equal(scene: Scene, partitions: list[Partition]) -> None:
    """Wait until the brokers have the same bytes in all their copies."""
    for partition in partitions:
        wait_until(_is_equal(scene, *partition))


def _is_equal(scene: Scene, topic: str, index: int) -> Callable[[], bool]:
    def is_equal() -> bool:
        copies = {
            b"".join(path.read_bytes() for path in sorted((broker.data / f"{topic}-{index}").glob("*.log")))
            for broker in scene.cluster
        }
        return len(copies) == 1

    return is_equal
