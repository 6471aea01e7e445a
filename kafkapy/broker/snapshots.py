"""Takes a snapshot of a running broker: its logs and metadata at one moment.

    1. active segments that are large are rolled, so that nearly all bytes are in closed segments
    2. changes of the metadata wait, and nobody removes segments, until 5 is done
    3. the moment: in one step of the event loop it is noted where each log ends
    4. the metadata is read, which has not changed since
    5. a thread links closed segments and copies the rest; producers and consumers continue

The new directory is that of a broker that was stopped in order at that moment. Records that were appended
and not acknowledged yet are in it, transactions that are open stay so, and those that are about to end do.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkapy.loop.collector import without_collections
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.protocol.errors import KafkaError
from kafkapy.snapshot import SnapshotError
from kafkapy.storage.directories.identity import DIRECTORY_KEY
from kafkapy.storage.disk.checkpoints import MetaProperties
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.moment import LogCopy, described, moments_of
from kafkapy.storage.snapshots.running import write_logs

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore

ROLLED_ABOVE: Final = 64 << 10
"""Larger active segments are rolled: a copy of so many bytes takes about as long as creating a file."""

_AT_ONCE: Final = 50
"""How many logs are looked at or described in one step of the event loop."""


async def take_snapshot(core: BrokerCore, target: str, *others: str) -> int:
    """Write a snapshot of the broker to directories that do not exist yet; return its moment.

    Given one for each log directory of the broker, each gets the logs of its own, so that files can be shared
    on several disks. Otherwise the first gets all logs. It has the metadata.

    Raises:
        SnapshotError: the broker is one of a cluster; a log directory is offline; or a disk failed.
    """
    store = core.store
    if core.clustered or not isinstance(store, EmbeddedStore):
        raise SnapshotError(
            "no snapshot of a broker of a cluster, whose metadata is elsewhere: take one of a broker that is"
            " alone"
        )
    if core.logs.offline_dirs:
        raise SnapshotError(
            f"no snapshot without the log directory {core.logs.offline_dirs[0]}, which is offline"
        )
    places = dict(zip((each.path for each in core.logs.directories), (target, *others), strict=False))
    await _roll(core)
    with core.logs.held():
        async with core.admin.unchanged():
            topics = core.metadata.image.topics
            with without_collections():
                moments = moments_of(log for key, log in core.logs.logs.items() if key.topic in topics)
                at_ms = core.clock.now_ms()
            metadata = await store.content()
            copies = []
            for number, moment in enumerate(moments, 1):
                copies.append(described(moment))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            try:
                await core.blocking(_write, copies, metadata, _meta(core), places, target)
            except OSError as error:
                raise SnapshotError(f"the snapshot {target} cannot be written: {error}") from error
            return at_ms


async def _roll(core: BrokerCore) -> None:
    for number, partition in enumerate(list(core.replicas), 1):
        log = partition.log
        if log.segments.active.size > ROLLED_ABOVE and not partition.offline:
            try:
                log.roll()
            except KafkaError as error:
                raise SnapshotError(f"no snapshot: {error.message}") from error
            await asyncio.sleep(0)
        elif number % _AT_ONCE == 0:
            await asyncio.sleep(0)


def _meta(core: BrokerCore) -> MetaProperties:
    """What identifies the broker; the snapshot is in one directory."""
    meta = core.logs.directories[0].meta
    others = {key: value for key, value in meta.others.items() if not key.startswith(DIRECTORY_KEY)}
    return replace(meta, others=others)


def _write(
    logs: list[LogCopy], metadata: bytes, meta: MetaProperties, places: dict[str, str], target: str
) -> None:
    """Write everything; if that fails, leave nothing."""
    files = FileSystem()
    made: list[str] = []
    try:
        for place in places.values():
            files.make_directory(place)
            made.append(place)
        files.write_file(f"{target}/{METADATA_FILE}", metadata)
        write_logs(logs, target, meta, places)
    except BaseException:
        for place in made:
            shutil.rmtree(place, ignore_errors=True)
        raise
