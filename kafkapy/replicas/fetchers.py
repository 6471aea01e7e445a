"""The fetchers of this broker, which bring it the records of other leaders.

There are `num.replica.fetchers` for each broker that leads some of its partitions. A partition keeps its
fetcher while its leader stays the same. Source: ReplicaFetcherManager.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.fetcher import Fetcher, FetcherParts
from kafkapy.replicas.follower import Follower
from kafkapy.replicas.partition import Partition


class Fetchers:
    """The fetchers by the broker they fetch from."""

    def __init__(self, parts: FetcherParts, count: Callable[[], int]) -> None:
        """`count` is the number of fetchers for each broker (`num.replica.fetchers`)."""
        self._parts = parts
        self._count = count
        self.by_place: dict[tuple[int, int], Fetcher] = {}
        """Those that run, by their leader's broker id and a number."""
        self._of: dict[TopicPartition, tuple[int, int]] = {}
        """The place of each partition's fetcher."""
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False

    def follow(self, partition: Partition, follower: Follower) -> None:
        """Fetch a partition from its leader, if it has one."""
        key = partition.topic_partition
        if self._stopped:
            return
        place = (follower.leader, _place(key, max(self._count(), 1)))
        if self._of.get(key) != place:
            self.unfollow(key)
        if follower.leader == NO_LEADER:
            return
        fetcher = self.by_place.get(place)
        if fetcher is None:
            name = f"fetcher-{place[1]}-{self._parts.node_id}-from-{place[0]}"
            fetcher = self.by_place[place] = Fetcher(place[0], name, self._parts)
        self._of[key] = place
        fetcher.add(partition, follower)

    def follows(self, key: TopicPartition) -> bool:
        """Whether a partition is fetched."""
        return key in self._of

    def unfollow(self, key: TopicPartition) -> None:
        """Do not fetch a partition any more."""
        place = self._of.pop(key, None)
        if place is not None:
            self.by_place[place].remove(key)

    def retire_idle(self) -> None:
        """End the fetchers that have no partitions."""
        for place, fetcher in list(self.by_place.items()):
            if not len(fetcher):
                del self.by_place[place]
                task = fetcher.stop()
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """End all fetchers."""
        self._stopped = True
        self._of.clear()
        tasks = [fetcher.stop() for fetcher in self.by_place.values()]
        self.by_place.clear()
        await asyncio.gather(*tasks, *self._ending, return_exceptions=True)


def _place(key: TopicPartition, count: int) -> int:
    """The number of the fetcher of a partition, the same in each process."""
    return (zlib.crc32(key.topic.encode()) + key.partition) % count
