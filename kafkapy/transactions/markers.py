"""Sends the markers of prepared transactions to partition leaders, until all are written.

Each destination gets one request at a time. It holds the markers of all transactions that ended meanwhile. A
request is answered when its slowest partition has the marker, which may take as long as replicas are missing.
So a request that is late does not count: the next one goes to the broker beside it, on another connection,
without the partitions that the late one waits for. (In Apache Kafka all transactions wait.)

What a broker has not written is sent again after a pause, to the leader of that time. A partition that does
not exist any more needs no marker.

The caller that asked for the markers hears once that all are written, unless it has cancelled them: then
another broker coordinates the transaction. Markers that are written twice change nothing.

Source: Apache Kafka's TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafkapy.coordination.timers import Timers
from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.protocol.types import TopicPartition

AT_ONCE: Final = 500
"""The most markers in a request, each for all partitions of its transaction that the destination leads."""

LATE_SECONDS: Final = 0.2
"""After this time a request without an answer is late."""

MOST_REQUESTS: Final = 5
"""The most requests on their way to a broker, of which all but one are late."""

PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0

NEEDED_NO_MORE: Final = frozenset(
    {
        ErrorCode.NONE,
        # The partition cannot hold transactions, so it has none.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # A later epoch of the producer wrote to the partition, which ended the transaction there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)

logger = logging.getLogger(__name__)


class Marker(NamedTuple):
    """The marker that a transaction writes to each of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int


class Sending:
    """The markers of one transaction that are still to be written."""

    __slots__ = ("done", "marker", "missing", "pause_seconds")

    def __init__(
        self, marker: Marker, partitions: Collection[TopicPartition], done: Callable[[], object]
    ) -> None:
        self.marker = marker
        self.missing = set(partitions)
        """The partitions without the marker; empty also after it was cancelled."""
        self.done: Callable[[], object] | None = done
        """To be called when all are written; None afterwards."""
        self.pause_seconds = PAUSE_SECONDS

    def cancel(self) -> None:
        """Send no more."""
        self.missing.clear()
        self.done = None


_Part = tuple[Sending, list[TopicPartition]]


class _Destination:
    """The markers for one broker."""

    __slots__ = ("on_the_way", "queue")

    def __init__(self) -> None:
        self.queue: list[_Part] = []
        """The markers to send next."""
        self.on_the_way: dict[int, _Exchange] = {}
        """The requests that have no answer, by the number of their connection."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.queue and not self.on_the_way

    def free_connection(self) -> int | None:
        """The number of the connection for the next request; None if it must wait for another one."""
        if len(self.on_the_way) == MOST_REQUESTS or not all(
            each.is_late for each in self.on_the_way.values()
        ):
            return None
        return next(number for number in range(MOST_REQUESTS) if number not in self.on_the_way)

    def take(self) -> list[_Part]:
        """Remove what goes into the next request.

        Partitions that a late request waits for stay: they would make the next one late too.
        """
        slow = {
            partition for each in self.on_the_way.values() for _, part in each.parts for partition in part
        }
        taken: list[_Part] = []
        left: list[_Part] = []
        for sending, partitions in self.queue:
            missing = sending.missing.intersection(partitions)
            now = missing - slow if len(taken) < AT_ONCE else set()
            if now:
                taken.append((sending, list(now)))
            if len(now) < len(missing):
                left.append((sending, list(missing - now)))
        self.queue = left
        return taken


class _Exchange:
    """A request that has no answer yet."""

    __slots__ = ("is_late", "parts", "task")

    def __init__(self) -> None:
        self.parts: Sequence[_Part] = ()
        self.is_late = False
        self.task: asyncio.Task[None]


class MarkerSender:
    """Sends markers."""

    def __init__(
        self,
        leader_of: Callable[[TopicPartition], int | None],
        ask: Callable[[int, WriteTxnMarkersRequest, int], Awaitable[WriteTxnMarkersResponse]],
        timers: Timers,
    ) -> None:
        """Use the given parts of the broker.

        `leader_of` gives the broker that leads a partition, NO_LEADER while there is none, and None if there
        is no such partition. `ask(broker, request, connection)` sends a request on the connection of this
        number: those on one connection are answered in their order.
        """
        self._leader_of = leader_of
        self._ask = ask
        self._timers = timers
        self._destinations: dict[int, _Destination] = {}
        """The brokers to which markers must be sent."""
        self._failing: set[int] = set()
        """The destinations whose failure is in the log."""
        self._is_stopped = False

    def send(
        self, marker: Marker, partitions: Collection[TopicPartition], done: Callable[[], object]
    ) -> Sending:
        """Write a marker to these partitions; `done` is called when all have it, possibly at once."""
        sending = Sending(marker, partitions, done)
        self._queue(sending, partitions)
        return sending

    async def stop(self) -> None:
        """Send no more."""
        self._is_stopped = True
        tasks = [each.task for to in self._destinations.values() for each in to.on_the_way.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _queue(self, sending: Sending, partitions: Collection[TopicPartition]) -> None:
        """Queue the marker for the present leaders of those partitions that lack it."""
        if self._is_stopped:
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            if partition not in sending.missing:
                continue
            leader = self._leader_of(partition)
            if leader is None:
                sending.missing.discard(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, led in by_leader.items():
            if leader == NO_LEADER:
                self._queue_later(sending, led)
                continue
            self._destinations.setdefault(leader, _Destination()).queue.append((sending, led))
            self._send_next(leader)
        _report(sending)

    def _queue_later(self, sending: Sending, partitions: Collection[TopicPartition]) -> None:
        pause = sending.pause_seconds
        sending.pause_seconds = min(pause * 2, LONGEST_PAUSE_SECONDS)
        self._timers.call_later(pause, partial(self._queue, sending, partitions))

    def _send_next(self, broker: int) -> None:
        """Send what is queued for a broker, if the requests on their way allow it."""
        to = self._destinations[broker]
        connection = to.free_connection()
        if connection is None or not to.queue or self._is_stopped:
            return
        sent = to.on_the_way[connection] = _Exchange()
        sent.task = asyncio.get_running_loop().create_task(
            self._exchange(broker, connection, sent), name=f"kafkapy-markers-to-{broker}-{connection}"
        )

    async def _exchange(self, broker: int, connection: int, sent: _Exchange) -> None:
        """Send a request with what is queued by now."""
        to = self._destinations[broker]
        timer = self._timers.call_later(LATE_SECONDS, lambda: self._is_late(broker, sent))
        try:
            sent.parts = to.take()
            if sent.parts:
                await self._ask_for(broker, connection, sent.parts)
        finally:
            timer.cancel()
            del to.on_the_way[connection]
            if sent.parts:
                self._send_next(broker)  # otherwise all that is queued waits for late requests
            if to.is_idle:
                del self._destinations[broker]

    def _is_late(self, broker: int, sent: _Exchange) -> None:
        sent.is_late = True
        self._send_next(broker)

    async def _ask_for(self, broker: int, connection: int, parts: Sequence[_Part]) -> None:
        results: dict[tuple[int, str, int], int] = {}
        try:
            response = await self._ask(broker, _request(parts), connection)
        except PeerError as error:
            self._failed(broker, str(error))
        except Exception:
            logger.exception("Markers to broker %d could not be sent", broker)
        else:
            results = _results(response)
        errors = set()
        for sending, partitions in parts:
            again = []
            for partition in partitions:
                code = results.get((sending.marker.producer_id, *partition))
                if code in NEEDED_NO_MORE:
                    sending.missing.discard(partition)
                elif partition in sending.missing:
                    again.append(partition)
                    errors.add(code)
            if again:
                self._queue_later(sending, again)
            _report(sending)
        if not errors:
            self._failing.discard(broker)
        elif results:
            self._failed(broker, ", ".join(sorted(map(_name, errors))))

    def _failed(self, broker: int, why: str) -> None:
        if broker not in self._failing:
            self._failing.add(broker)
            logger.info("Broker %d has not written all markers, and is asked again: %s", broker, why)


def _name(code: int | None) -> str:
    return "no answer" if code is None else ErrorCode(code).name


def _report(sending: Sending) -> None:
    done = sending.done
    if done is not None and not sending.missing:
        sending.done = None
        done()


def _request(parts: Sequence[_Part]) -> WriteTxnMarkersRequest:
    markers = []
    for sending, partitions in parts:
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        marker = sending.marker
        markers.append(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic.items()
                ],
            )
        )
    return WriteTxnMarkersRequest(markers=markers)


def _results(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    """The error of each producer id, topic and partition."""
    return {
        (marker.producer_id, topic.name, result.partition_index): result.error_code
        for marker in response.markers
        for topic in marker.topics
        for result in topic.partitions
    }
