"""The transaction coordinator: which transactional ids there are, and what ends where.

This broker coordinates the transactional ids of every partition of `__transaction_state` that it leads
(`kafkapy.coordination.runtime`). What a request does is decided by the id's state machine, written to the
partition, and in effect when that is committed.

A transaction ends in three steps: its outcome is written (PREPARE_COMMIT or PREPARE_ABORT) and the client is
answered; markers are written to all its partitions; the end is written (COMPLETE_COMMIT or COMPLETE_ABORT). A
crash before the first step ends nothing: the transaction continues, or times out. After it, the broker that
coordinates the id next finds the outcome and writes all markers again. So there is one outcome for all
partitions.

The epoch of the coordinator, which is in each marker, is the leader epoch of its partition: a partition
refuses markers of an earlier coordinator.

Source: Apache Kafka's TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import coordinator_error
from kafkapy.coordination.pending_write import report
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import Done, TopicLog
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Steps, take_turn
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.loading import TransactionReplay
from kafkapy.transactions.markers import Marker, MarkerSender, Sending
from kafkapy.transactions.metadata import TransactionMetadata, TransactionState
from kafkapy.transactions.records import encode_key, encode_value
from kafkapy.transactions.state_machine import (
    Producer,
    ProducerIdNeededError,
    TransactionMachine,
    after_end,
)

NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

EndDone = Callable[[ErrorCode, Producer], None]
"""Called once with the error of an EndTxn, and with what the client uses from now on."""

COMPLETE_AGAIN_SECONDS: Final = 1.0
"""The pause before an end is written again that could not be written."""

EXPIRED_AT_ONCE: Final = 500
"""The expired ids that are removed in one write."""

LONG_ID: Final = 1024

logger = logging.getLogger(__name__)


class TransactionCoordinator:
    """The transactional ids of this broker (`kafkapy.coordination.runtime.StateMachine`)."""

    max_long_ids_bytes: int = 16 << 20
    """The most characters of all transactional ids that are longer than LONG_ID."""

    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        timers: Timers,
        log: TopicLog,
        markers: MarkerSender,
        *,
        new_producer_id: Callable[[], Awaitable[int]],
        blocking: Callable[..., Awaitable[Any]],
        version: int,
    ) -> None:
        """Use the given parts of the broker.

        Args:
            config: its settings.
            clock: for the times in records.
            timers: for what happens later.
            log: the internal topic.
            markers: writes markers.
            new_producer_id: gives a producer id that nobody has, or raises KafkaError.
            blocking: `blocking(call, *args)` runs a long call in a worker thread.
            version: the transaction version of the cluster.
        """
        self.version = version
        self.runtime = CoordinatorRuntime(self, log, clock, timers, blocking=blocking)
        self._config = config
        self._clock = clock
        self._timers = timers
        self._topic = log.topic
        self._markers = markers
        self._new_producer_id = new_producer_id
        self._machines: dict[str, TransactionMachine] = {}
        self._ongoing: dict[str, TransactionMachine] = {}
        """Those with a transaction, which may time out."""
        self._ending: dict[str, Sending] = {}
        """The markers that are being written, by transactional id."""
        self._deadlines = CommitDeadlines(timers, config.request_timeout_ms / 1000)
        self._timeout_check: Cancellable | None = None
        self._expiration_check: Cancellable | None = None
        self._waiting: set[asyncio.Task[None]] = set()
        """The requests and timeouts that wait for a producer id."""
        self._timing_out: set[str] = set()
        """The transactional ids whose timeout waits for a producer id."""

    # --- the topic ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the transactions in the background, and look for expired ones at intervals."""
        self.runtime.open_topic()
        self._schedule_expiration_check()

    async def stop(self) -> None:
        """Unload all transactions, and cancel all timers and tasks."""
        for timer in (self._timeout_check, self._expiration_check):
            if timer is not None:
                timer.cancel()
        await self.runtime.stop()
        await self._markers.stop()
        if self._waiting:
            await asyncio.wait(self._waiting)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is ending, and no state is being written."""
        return not (self._ending or self._waiting or self.runtime.is_writing)

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Load or unload a partition after this broker became its leader or ceased to be.

        It is called for each change, in their order.
        """
        if topic == self._topic:
            self.runtime.leadership_changed(partition, leads=leads, leader_epoch=leader_epoch)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on the creation or deletion of the internal topic."""
        self.runtime.metadata_changed(old, new)

    def replay(self, name: str) -> TransactionReplay:
        """Begin to read a partition."""
        return TransactionReplay(name)

    def install(self, loaded: list[TransactionMetadata]) -> str:
        """Add the transactional ids of a partition, and let prepared transactions end."""
        prepared = []
        for metadata in loaded:
            machine = self._machines[metadata.transactional_id] = TransactionMachine(metadata)
            if metadata.state is TransactionState.ONGOING:
                self._has_begun(machine)
            elif metadata.state.is_prepared:
                prepared.append(machine)
        # The partition is active after the present event.
        self._timers.call_later(0, lambda: self._end_prepared(prepared))
        return f"{len(loaded)} transactional ids, of which {len(prepared)} have a transaction to be ended"

    def unload(self, partitions: Collection[int]) -> None:
        """Drop the transactional ids of these partitions."""
        for transactional_id in tuple(self._machines):
            if self.runtime.partition_of(transactional_id) in partitions:
                self._forget(transactional_id)

    def _forget(self, transactional_id: str) -> None:
        del self._machines[transactional_id]
        self._ongoing.pop(transactional_id, None)
        sending = self._ending.pop(transactional_id, None)
        if sending is not None:
            sending.cancel()

    def _machine(self, transactional_id: str) -> TransactionMachine:
        """The state machine of an id that a producer names.

        Raises:
            KafkaError: there is none, or not here.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        self.runtime.require_active(transactional_id)
        machine = self._machines.get(transactional_id)
        if machine is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return machine

    def _write(self, machine: TransactionMachine, to: TransactionMetadata, done: Done) -> None:
        """Write the pending state of a machine; `done` is called once."""
        transactional_id = to.transactional_id

        def committed(start: int, stop: int) -> None:
            metadata = machine.written()
            if metadata.state is TransactionState.ONGOING:
                self._has_begun(machine)
                return
            self._ongoing.pop(transactional_id, None)
            if metadata.state.is_prepared:
                self._send_markers(machine)

        def undone() -> None:
            machine.not_written()
            if machine.metadata.producer_epoch == NO_PRODUCER_EPOCH:
                self._forget(transactional_id)  # nothing of it is in the log

        record = (encode_key(transactional_id), encode_value(to, self.version))
        report(self.runtime.write(transactional_id, [record], committed=committed, undone=undone), done)

    def _in_time(self, done: Done) -> Done:
        """`done` with the error for the client, called once, however long a write takes."""
        return self._deadlines.limit(lambda error: done(coordinator_error(error)))

    # --- requests -------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Producer:
        """InitProducerId: what a client uses that begins.

        Raises:
            KafkaError: it must ask again, or is refused.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_id: int | None = None
        while True:
            self.runtime.require_active(transactional_id)
            try:
                machine = self._machines.get(transactional_id) or self._new_machine(transactional_id, new_id)
                to = machine.init(
                    timeout_ms, expected, now_ms=self._clock.now_ms(), version=self.version, new_id=new_id
                )
                break
            except ProducerIdNeededError:
                new_id = await self._new_producer_id()
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._write(machine, to, self._in_time(written.set_result))
        error = await written
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        if to.state is TransactionState.PREPARE_ABORT:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Producer(to.producer_id, to.producer_epoch)

    def _new_machine(self, transactional_id: str, producer_id: int | None) -> TransactionMachine:
        if producer_id is None:
            raise ProducerIdNeededError
        self._require_room(transactional_id)
        metadata = TransactionMetadata(transactional_id, producer_id, 0, self._clock.now_ms())
        machine = self._machines[transactional_id] = TransactionMachine(metadata)
        return machine

    def _require_room(self, transactional_id: str) -> None:
        """Raise KafkaError if the ids would take too much memory with this one."""
        if len(transactional_id) > LONG_ID:
            held = sum(len(each) for each in self._machines if len(each) > LONG_ID)
            if held + len(transactional_id) > self.max_long_ids_bytes:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "There are too many long transactional ids.")

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done,
    ) -> None:
        """AddPartitionsToTxn, AddOffsetsToTxn of a client with this transaction version.

        `done` is called once, with the error for the client.
        """
        try:
            machine = self._machine(transactional_id)
            to = machine.add_partitions(
                producer,
                partitions,
                now_ms=self._clock.now_ms(),
                version=min(version, self.version),
            )
        except KafkaError as error:
            done(error.code)
            return
        if to is None:
            done(ErrorCode.NONE)
        else:
            self._write(machine, to, self._in_time(done))

    def verify(self, transactional_id: str, producer: Producer) -> frozenset[TopicPartition]:
        """The partitions of a producer's transaction.

        Raises:
            KafkaError: the producer is another one, or the transaction ends.
        """
        return self._machine(transactional_id).verify(producer)

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, version: int, done: EndDone
    ) -> None:
        """EndTxn of a client with this transaction version; `done` is called once."""
        try:
            self._end(transactional_id, producer, commit=commit, version=version, done=done)
        except ProducerIdNeededError:
            task = asyncio.get_running_loop().create_task(
                self._end_with_new_id(transactional_id, producer, commit, version, done)
            )
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _end_with_new_id(
        self, transactional_id: str, producer: Producer, commit: bool, version: int, done: EndDone
    ) -> None:
        try:
            new_id = await self._new_producer_id()
        except KafkaError as error:
            done(error.code, NO_PRODUCER)
            return
        self._end(transactional_id, producer, commit=commit, version=version, done=done, new_id=new_id)

    def _end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        version: int,
        done: EndDone,
        new_id: int | None = None,
    ) -> None:
        try:
            machine = self._machine(transactional_id)
            to = machine.end(
                producer,
                commit=commit,
                now_ms=self._clock.now_ms(),
                version=min(version, self.version),
                new_id=new_id,
            )
        except KafkaError as error:
            done(error.code, NO_PRODUCER)
            return
        after = after_end(to or machine.metadata)
        if to is None:
            done(ErrorCode.NONE, after)
            return
        self._write(
            machine,
            to,
            self._in_time(lambda error: done(error, after if error is ErrorCode.NONE else NO_PRODUCER)),
        )

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """The state of a transactional id.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND, or that it is not coordinated here.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        self.runtime.require_active(transactional_id)
        machine = self._machines.get(transactional_id)
        if machine is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return machine.metadata

    def listed(self) -> Iterator[TransactionMetadata]:
        """The states of all transactional ids as of now."""
        return (machine.metadata for machine in tuple(self._machines.values()))

    # --- ends -----------------------------------------------------------------------------------------------

    def _end_prepared(self, machines: Collection[TransactionMachine]) -> None:
        """Let the transactions end that were found prepared."""
        for machine in machines:
            if self._is_here(machine):
                self._send_markers(machine)

    def _is_here(self, machine: TransactionMachine) -> bool:
        """Whether a machine's transactional id is still here, and was not loaded again."""
        return self._machines.get(machine.metadata.transactional_id) is machine

    def _send_markers(self, machine: TransactionMachine) -> None:
        metadata = machine.metadata
        transactional_id = metadata.transactional_id
        if not metadata.partitions:
            self._complete(machine)
            return
        try:
            epoch = self.runtime.leader_epoch(transactional_id)
        except KafkaError:
            return  # the partition is lost, and its next coordinator sends the markers
        marker = Marker(
            metadata.producer_id,
            metadata.producer_epoch,
            epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            metadata.client_version,
        )
        self._ending[transactional_id] = self._markers.send(
            marker, metadata.partitions, partial(self._markers_written, machine)
        )

    def _markers_written(self, machine: TransactionMachine) -> None:
        self._ending.pop(machine.metadata.transactional_id, None)
        self._complete(machine)

    def _complete(self, machine: TransactionMachine) -> None:
        """Write that a transaction has ended, which no client waits for."""
        if not self._is_here(machine):
            return

        def done(error: ErrorCode) -> None:
            # If the partition is lost, its next coordinator ends the transaction.
            if error is not ErrorCode.NONE and self._is_here(machine):
                self._timers.call_later(COMPLETE_AGAIN_SECONDS, lambda: self._complete(machine))

        self._write(machine, machine.complete(now_ms=self._clock.now_ms()), done)

    # --- time -----------------------------------------------------------------------------------------------

    def _has_begun(self, machine: TransactionMachine) -> None:
        """Look at intervals whether transactions take too long, as long as there are any."""
        self._ongoing[machine.metadata.transactional_id] = machine
        if self._timeout_check is None:
            self._schedule_timeout_check()

    def _schedule_timeout_check(self) -> None:
        seconds = self._config.timeout_check_interval_ms / 1000
        self._timeout_check = self._timers.call_later(seconds, self._abort_timed_out)

    def _abort_timed_out(self) -> None:
        self._timeout_check = None
        if self._ongoing:
            self._schedule_timeout_check()
        now_ms = self._clock.now_ms()
        for transactional_id, machine in tuple(self._ongoing.items()):
            if not self.runtime.is_active(transactional_id):
                continue
            try:
                self._time_out(transactional_id, machine, now_ms)
            except ProducerIdNeededError:
                if transactional_id not in self._timing_out:
                    self._timing_out.add(transactional_id)
                    task = asyncio.get_running_loop().create_task(
                        self._time_out_with_new_id(transactional_id)
                    )
                    self._waiting.add(task)
                    task.add_done_callback(self._waiting.discard)

    def _time_out(
        self, transactional_id: str, machine: TransactionMachine, now_ms: int, new_id: int | None = None
    ) -> None:
        to = machine.time_out(now_ms=now_ms, version=self.version, new_id=new_id)
        if to is not None:
            logger.info("The transaction of %s takes too long: aborted", shortened(transactional_id))
            self._write(machine, to, _ignore)

    async def _time_out_with_new_id(self, transactional_id: str) -> None:
        try:
            new_id = await self._new_producer_id()
        except KafkaError as error:
            logger.info(
                "The transaction of %s takes too long, and waits for a producer id: %s",
                shortened(transactional_id),
                error,
            )
            return  # the next check tries again
        finally:
            self._timing_out.discard(transactional_id)
        machine = self._ongoing.get(transactional_id)
        if machine is not None and self.runtime.is_active(transactional_id):
            self._time_out(transactional_id, machine, self._clock.now_ms(), new_id)

    def _schedule_expiration_check(self) -> None:
        seconds = self._config.expiration_check_interval_ms / 1000
        self._expiration_check = self._timers.call_later(seconds, self._begin_expiration)

    def _begin_expiration(self) -> None:
        self._expire_next(self._expire())

    def _expire_next(self, steps: Steps[None]) -> None:
        """Take a turn of the removal of expired ids, which no request waits for."""
        if take_turn(steps) is None:
            self._expiration_check = self._timers.call_later(0, lambda: self._expire_next(steps))
        else:
            self._schedule_expiration_check()

    def _expire(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        expired: dict[int, dict[str, TransactionMachine]] = {}
        for transactional_id, machine in tuple(self._machines.items()):
            yield
            if not self._is_here(machine) or not self.runtime.is_active(transactional_id):
                continue
            if machine.expire(self._config.expiration_ms, now_ms=now_ms):
                index = self.runtime.partition_of(transactional_id)
                of_partition = expired.setdefault(index, {})
                of_partition[transactional_id] = machine
                if len(of_partition) == EXPIRED_AT_ONCE:
                    self._remove(expired.pop(index))
        for of_partition in expired.values():
            yield
            self._remove(of_partition)

    def _remove(self, machines: Mapping[str, TransactionMachine]) -> None:
        """Write that transactional ids of one partition are gone."""
        machines = {name: machine for name, machine in machines.items() if self._is_here(machine)}
        if not machines:
            return
        names = list(machines)

        def committed(start: int, stop: int) -> None:
            for name in names[start:stop]:
                self._forget(name)

        def undone() -> None:
            for machine in machines.values():
                if self._is_here(machine):
                    machine.not_written()

        logger.info("%d transactional ids have expired", len(names))
        # Whatever becomes of it: the next check tries again.
        self.runtime.write(
            names[0], [(encode_key(name), None) for name in names], committed=committed, undone=undone
        )


def _ignore(error: ErrorCode) -> None:
    """Ignore the error: the next check tries again."""
