"""One scrape: a snapshot on the event loop, then a page in a thread.

Clients that come while a scrape is under way get its page: there is one at a time, however many ask.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from kafkapy.groups.group import GroupType
from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.image import NO_LEADER
from kafkapy.metrics import families, snapshot
from kafkapy.metrics.http_server import Answer
from kafkapy.metrics.loop_probe import LoopProbe
from kafkapy.metrics.names import Names, Spelling
from kafkapy.metrics.page import CONTENT_TYPE, Page
from kafkapy.metrics.record_ages import RecordAges
from kafkapy.metrics.served_broker import ServedBroker
from kafkapy.metrics.snapshot import OffsetFacts, Snapshot
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.special_timestamps import LATEST

ENDS_SECONDS: Final = 2.0
"""How long another broker may take to tell the ends of its logs."""

PARTITIONS_AT_ONCE: Final = 1000
"""The most partitions of one request for ends."""

_COMPRESSION_LEVEL: Final = 1
"""The fastest one: the page becomes a tenth as large."""

_GZIP: Final = 16
"""Is added to the window's size for the format of gzip."""

Pages: TypeAlias = tuple[list[bytes], list[bytes]]
"""The parts of a page, and those of the same one compressed."""

logger = logging.getLogger(__name__)


class Scrapes:
    """Makes the pages of one broker."""

    def __init__(self, broker: ServedBroker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._ages = RecordAges(broker.logs.files, broker.cold_reads)
        self._probe = LoopProbe(broker.server.loop, broker.server)
        self._library = CollectorRegistry()
        """The metrics that the client library has of every Python process."""
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._library)
        self._version = _version()
        self._under_way: asyncio.Task[Pages] | None = None

    async def stop(self) -> None:
        """End the scrape that is under way."""
        self._probe.stop()
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)
        await self._ages.stop()

    async def answer(self, takes_gzip: bool) -> Answer:
        """The page."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.ensure_future(self._make())
        plain, compressed = await asyncio.shield(self._under_way)
        if takes_gzip:
            return Answer(200, compressed, CONTENT_TYPE, "gzip")
        return Answer(200, plain, CONTENT_TYPE)

    async def _make(self) -> Pages:
        broker = self._broker
        self._ages.begin()
        try:
            found = await broker.turns.finish(snapshot.take(broker, self._ages))
        finally:
            self._ages.end()
        await self._add_share_groups(found)
        await self._ask_for_ends(found)
        idle, accepted, closed = self._probe.rates()
        page = Page(self._names)
        counts = self._names.spelling is Spelling.STRIMZI
        shown = int(self._probe.idle_seconds() * 1e9) if counts else round(idle, 4)
        page.add_one("KafkaRequestHandlerPool.RequestHandlerAvgIdlePercent", shown)
        page.add_one("SocketServer.NetworkProcessorAvgIdlePercent", round(idle, 4))
        page.add_one("socket-server-metrics.connection-creation-rate", round(accepted, 4))
        page.add_one("socket-server-metrics.connection-close-rate", round(closed, 4))
        buckets = self._probe.buckets()
        page.add_histogram(
            "kafkapy_event_loop_lag_seconds", buckets, self._probe.late_seconds, buckets[-1][1]
        )
        return await broker.blocking(self._write, page, found)

    async def _add_share_groups(self, found: Snapshot) -> None:
        """Add the start offsets of share groups, which their share coordinators have."""
        broker = self._broker
        share_groups = [each.group_id for each in found.groups if each.type is GroupType.SHARE]
        try:
            async with asyncio.timeout(ENDS_SECONDS):
                for group_id in share_groups:
                    topics = await broker.groups.share_offsets.describe_all(group_id, broker.turns)
                    found.add_share_group(group_id, topics, broker)
        except (TimeoutError, KafkaError) as error:
            logger.debug("The start offsets of some share groups are missing: %r", error)

    def _write(self, page: Page, found: Snapshot) -> Pages:
        """Write the page, in a thread."""
        files = self._broker.logs.files
        for path, is_offline in found.directories:
            try:
                found.free_bytes.append(None if is_offline else files.free_bytes(path))
            except OSError:
                found.free_bytes.append(None)
        families.write_build(page, self._version)
        families.write(page, found)
        page.parts.append(generate_latest(self._library))
        packer = zlib.compressobj(_COMPRESSION_LEVEL, wbits=zlib.MAX_WBITS | _GZIP)
        compressed = [packer.compress(part) for part in page.parts]
        return page.parts, [*compressed, packer.flush()]

    async def _ask_for_ends(self, found: Snapshot) -> None:
        """Ask the leaders for the ends of logs that are not on this broker, where groups read them."""
        by_leader: defaultdict[int, list[OffsetFacts]] = defaultdict(list)
        for facts in found.offsets:
            if facts.end is None and (state := found.image.partition(*facts.partition)) is not None:
                by_leader[state.leader].append(facts)
        by_leader.pop(NO_LEADER, None)
        by_leader.pop(found.node_id, None)
        await asyncio.gather(*(self._ask(leader, facts) for leader, facts in by_leader.items()))

    async def _ask(self, leader: int, wanted: list[OffsetFacts]) -> None:
        for start in range(0, len(wanted), PARTITIONS_AT_ONCE):
            some = wanted[start : start + PARTITIONS_AT_ONCE]
            topics: defaultdict[str, set[int]] = defaultdict(set)
            for facts in some:
                topics[facts.partition.topic].add(facts.partition.partition)
            request = ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=name,
                        partitions=[
                            ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes
                        ],
                    )
                    for name, indexes in topics.items()
                ],
            )
            try:
                response = await self._broker.inter_broker.ask(leader, request, seconds=ENDS_SECONDS)
            except PeerError as error:
                logger.debug("Broker %d has not told the ends of its logs: %s", leader, error)
                return
            ends = {
                (topic.name, each.partition_index): each.offset
                for topic in response.topics
                for each in topic.partitions
                if each.error_code == ErrorCode.NONE
            }
            for facts in some:
                facts.end = ends.get(facts.partition)


def _version() -> str:
    """The version of this broker; empty if it runs without being installed."""
    try:
        return version("kafkapy-broker")
    except PackageNotFoundError:
        return ""
