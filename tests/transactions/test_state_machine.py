"""The state machine of a transactional id.

It gets single requests, and thousands of random steps with checks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import MAX_PRODUCER_EPOCH
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import (
    LAST_EPOCH,
    TransactionMetadata,
    TransactionState,
)
from kafkapy.transactions.records import decode_value, encode_value
from kafkapy.transactions.state_machine import (
    Producer,
    ProducerIdNeededError,
    TransactionMachine,
    after_end,
)

State = TransactionState
T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
TIMEOUT = 60_000


def machine(epoch: int = 0, state: State = State.EMPTY, **other: object) -> TransactionMachine:
    """A machine of producer 7, which was last changed at the time 0."""
    started = TransactionMetadata("x", 7, TIMEOUT, 0, producer_epoch=epoch, state=state)
    return TransactionMachine(started._replace(**other))  # type: ignore[arg-type]


def ongoing(epoch: int = 0) -> TransactionMachine:
    return machine(epoch, State.ONGOING, partitions=frozenset({T0}), start_ms=0)


def added(
    to: TransactionMachine, epoch: int, *partitions: TopicPartition, version: int = 2
) -> TransactionMetadata | None:
    return to.add_partitions(Producer(7, epoch), partitions, now_ms=5, version=version)


def ended(
    to: TransactionMachine, epoch: int, *, commit: bool, version: int = 2, new_id: int | None = None
) -> TransactionMetadata | None:
    return to.end(Producer(7, epoch), commit=commit, now_ms=9, version=version, new_id=new_id)


def initialized(
    to: TransactionMachine, expected: Producer | None = None, new_id: int | None = None, version: int = 2
) -> TransactionMetadata:
    return to.init(TIMEOUT, expected, now_ms=9, version=version, new_id=new_id)


def error_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_a_client_that_begins_gets_the_next_epoch() -> None:
    new = machine(-1)
    assert initialized(new).producer_epoch == 0
    assert error_of(lambda: initialized(new)) is ErrorCode.CONCURRENT_TRANSACTIONS, "it is being written"
    assert new.written().state is State.EMPTY
    assert initialized(new).producer_epoch == 1
    new.not_written()
    assert initialized(new).producer_epoch == 1, "the write has failed"


def test_a_client_that_continues_gets_the_epoch_after_its_own_once() -> None:
    known = machine(4)
    initialized(known, Producer(7, 4))
    assert known.written()[:5] == ("x", 7, TIMEOUT, 9, 5)
    assert initialized(known, Producer(7, 4)).producer_epoch == 5, "the answer was lost"
    known.written()
    for stranger in (Producer(7, 3), Producer(7, 6), Producer(8, 5)):
        assert error_of(lambda: initialized(known, stranger)) is ErrorCode.PRODUCER_FENCED  # noqa: B023


def test_a_client_gets_another_producer_id_when_the_epochs_are_used_up() -> None:
    for expected, last_epoch in ((None, -1), (Producer(7, LAST_EPOCH), LAST_EPOCH)):
        used_up = machine(LAST_EPOCH)
        with pytest.raises(ProducerIdNeededError):
            initialized(used_up, expected)
        to = initialized(used_up, expected, new_id=8)
        assert (to.producer_id, to.producer_epoch, to.last_producer_epoch) == (8, 0, last_epoch)
    used_up.written()
    again = initialized(used_up, Producer(7, LAST_EPOCH))
    assert (again.producer_id, again.producer_epoch) == (8, 0), "the answer was lost"
    assert error_of(lambda: initialized(machine(LAST_EPOCH), Producer(7, 3))) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_a_new_client_aborts_the_transaction_of_the_one_before(version: int) -> None:
    open_one = ongoing(4)
    assert error_of(lambda: initialized(open_one, Producer(7, 3))) is ErrorCode.PRODUCER_FENCED
    to = initialized(open_one, version=version)
    assert (to.state, to.producer_epoch, to.partitions) == (State.PREPARE_ABORT, 5, frozenset({T0}))
    open_one.written()
    assert error_of(lambda: initialized(open_one)) is ErrorCode.CONCURRENT_TRANSACTIONS
    open_one.complete(now_ms=10)
    open_one.written()
    assert error_of(lambda: added(open_one, 4, T0)) is ErrorCode.PRODUCER_FENCED
    assert initialized(open_one).producer_epoch == 6


def test_before_version_2_a_producer_without_epochs_left_can_be_fenced() -> None:
    open_one = ongoing(LAST_EPOCH)
    assert initialized(open_one, version=0).producer_epoch == MAX_PRODUCER_EPOCH
    open_one.written()
    assert open_one.complete(now_ms=10).producer_epoch == MAX_PRODUCER_EPOCH
    open_one.written()
    last = error_of(lambda: ended(open_one, LAST_EPOCH, commit=False, version=0))
    assert last is ErrorCode.PRODUCER_FENCED, "nobody gets the epoch after the last"
    continues = error_of(lambda: initialized(open_one, Producer(7, LAST_EPOCH), new_id=8, version=0))
    assert continues is ErrorCode.PRODUCER_FENCED
    to = initialized(open_one, new_id=8, version=0)
    assert (to.producer_id, to.producer_epoch) == (8, 0)


@pytest.mark.parametrize("by", ["timeout", "new client"])
def test_a_producer_that_is_fenced_at_its_last_epoch_goes_on_with_the_next_id(by: str) -> None:
    open_one = ongoing(LAST_EPOCH)

    def fence(new_id: int | None) -> TransactionMetadata:
        if by == "new client":
            return initialized(open_one, new_id=new_id)
        to = open_one.time_out(now_ms=TIMEOUT + 1, version=2, new_id=new_id)
        assert to is not None
        return to

    with pytest.raises(ProducerIdNeededError):
        fence(None)
    to = fence(8)
    assert (to.producer_id, to.producer_epoch) == (7, MAX_PRODUCER_EPOCH), (
        "the markers are those of the old id"
    )
    open_one.written()
    open_one.complete(now_ms=10)
    assert after_end(open_one.written()) == (8, 0)
    assert error_of(lambda: ended(open_one, LAST_EPOCH, commit=True)) is ErrorCode.INVALID_TXN_STATE
    assert ended(open_one, LAST_EPOCH, commit=False) is None
    assert error_of(lambda: ended(open_one, LAST_EPOCH - 1, commit=False)) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert open_one.add_partitions(Producer(8, 0), [T0], now_ms=9, version=2) is not None


def test_partitions_are_added_until_the_end_is_decided() -> None:
    idle = machine()
    to = added(idle, 0, T0)
    assert to is not None
    assert (to.state, to.start_ms, to.partitions) == (State.ONGOING, 5, frozenset({T0}))
    assert error_of(lambda: added(idle, 0, T1)) is ErrorCode.CONCURRENT_TRANSACTIONS
    idle.written()
    assert added(idle, 0, T0) is None, "it is there already"
    to = added(idle, 0, T0, T1)
    assert to is not None
    assert to.partitions == {T0, T1}
    idle.written()
    assert idle.verify(Producer(7, 0)) == {T0, T1}
    ended(idle, 0, commit=True, version=0)
    assert idle.verify(Producer(7, 0)) == {T0, T1}, "nothing is decided yet"
    idle.written()
    assert error_of(lambda: idle.verify(Producer(7, 0))) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert error_of(lambda: added(idle, 0, T2)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_only_the_producer_of_the_last_epoch_adds_and_ends() -> None:
    idle = ongoing(3)
    for version in (0, 2):
        for epoch in (2, 4):
            assert error_of(lambda: added(idle, epoch, T1)) is ErrorCode.PRODUCER_FENCED  # noqa: B023
            fenced = error_of(lambda: ended(idle, epoch, commit=True, version=version))  # noqa: B023
            assert fenced is ErrorCode.PRODUCER_FENCED
        other = Producer(8, 3)
        mapping = error_of(
            lambda: idle.end(other, commit=True, now_ms=9, version=version, new_id=None)  # noqa: B023
        )
        assert mapping is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error_of(lambda: idle.verify(Producer(7, 2))) is ErrorCode.PRODUCER_FENCED
    assert error_of(lambda: idle.verify(Producer(8, 3))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_an_old_client_ends_a_transaction_and_keeps_its_epoch(commit: bool) -> None:
    prepared, complete = (
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
        if commit
        else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    )
    open_one = ongoing(4)
    ended(open_one, 4, commit=commit, version=0)
    assert open_one.written().state is prepared
    for again in (True, False):
        ending = error_of(lambda: ended(open_one, 4, commit=again, version=0))  # noqa: B023
        assert ending is ErrorCode.CONCURRENT_TRANSACTIONS
    open_one.complete(now_ms=10)
    done = open_one.written()
    assert (done.state, done.producer_epoch, done.partitions) == (complete, 4, frozenset())
    assert ended(open_one, 4, commit=commit, version=0) is None
    other = error_of(lambda: ended(open_one, 4, commit=not commit, version=0))
    assert other is ErrorCode.INVALID_TXN_STATE
    assert error_of(lambda: ended(machine(), 0, commit=commit, version=0)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_in_version_2_each_end_takes_the_next_epoch(commit: bool) -> None:
    open_one = ongoing(4)
    to = ended(open_one, 4, commit=commit)
    assert to is not None
    assert after_end(to) == (7, 5)
    open_one.written()
    assert error_of(lambda: ended(open_one, 4, commit=commit)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert open_one.complete(now_ms=10).producer_epoch == 5
    assert after_end(open_one.written()) == (7, 5)
    assert ended(open_one, 4, commit=commit) is None, "the answer was lost"
    assert error_of(lambda: ended(open_one, 4, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
    assert error_of(lambda: ended(open_one, 3, commit=commit)) is ErrorCode.PRODUCER_FENCED
    assert error_of(lambda: ended(open_one, 5, commit=True)) is ErrorCode.INVALID_TXN_STATE, (
        "nothing to commit"
    )
    to = ended(open_one, 5, commit=False)
    assert to is not None, "an abort needs no partitions"
    assert (to.state, to.producer_epoch, to.start_ms) == (State.PREPARE_ABORT, 6, 9)


def test_in_version_2_an_end_may_change_the_producer_id() -> None:
    open_one = ongoing(LAST_EPOCH)
    with pytest.raises(ProducerIdNeededError):
        ended(open_one, LAST_EPOCH, commit=True)
    to = ended(open_one, LAST_EPOCH, commit=True, new_id=8)
    assert to is not None
    assert (to.producer_id, to.producer_epoch) == (7, MAX_PRODUCER_EPOCH), (
        "the markers are those of the old id"
    )
    assert after_end(to) == (8, 0)
    open_one.written()
    early = error_of(lambda: open_one.add_partitions(Producer(8, 0), [T0], now_ms=9, version=2))
    assert early is ErrorCode.CONCURRENT_TRANSACTIONS
    open_one.complete(now_ms=10)
    assert after_end(open_one.written()) == (8, 0)
    assert ended(open_one, LAST_EPOCH, commit=True) is None, "the answer was lost"
    assert open_one.add_partitions(Producer(8, 0), [T0], now_ms=9, version=2) is not None


def timed_out(version: int) -> TransactionMachine:
    """A machine whose transaction of epoch 4 took too long."""
    open_one = ongoing(4)
    assert open_one.time_out(now_ms=TIMEOUT, version=version, new_id=None) is None
    to = open_one.time_out(now_ms=TIMEOUT + 1, version=version, new_id=None)
    assert to is not None
    assert (to.state, to.producer_epoch) == (State.PREPARE_ABORT, 5)
    again = open_one.time_out(now_ms=TIMEOUT + 1, version=version, new_id=None)
    assert again is None, "it is being aborted"
    open_one.written()
    open_one.complete(now_ms=TIMEOUT + 1)
    open_one.written()
    assert error_of(lambda: added(open_one, 4, T0)) is ErrorCode.PRODUCER_FENCED
    return open_one


def test_before_version_2_a_producer_whose_transaction_took_too_long_is_fenced() -> None:
    open_one = timed_out(version=0)
    assert error_of(lambda: ended(open_one, 4, commit=True, version=0)) is ErrorCode.PRODUCER_FENCED
    assert error_of(lambda: initialized(open_one, Producer(7, 4), version=0)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_transaction_took_too_long_goes_on_with_the_next_epoch() -> None:
    open_one = timed_out(version=2)
    assert error_of(lambda: ended(open_one, 4, commit=True)) is ErrorCode.INVALID_TXN_STATE
    assert ended(open_one, 4, commit=False) is None
    assert after_end(open_one.metadata) == (7, 5)
    assert initialized(open_one, Producer(7, 4)).producer_epoch == 5
    open_one.written()
    assert added(open_one, 5, T0) is not None


def test_a_producer_whose_transaction_took_too_long_is_fenced_by_who_begins() -> None:
    open_one = timed_out(version=2)
    assert initialized(open_one).producer_epoch == 6
    open_one.written()
    assert error_of(lambda: ended(open_one, 4, commit=False)) is ErrorCode.PRODUCER_FENCED
    assert error_of(lambda: initialized(open_one, Producer(7, 4))) is ErrorCode.PRODUCER_FENCED


def test_an_id_that_is_not_used_expires_unless_it_has_a_transaction() -> None:
    assert not ongoing().expire(1000, now_ms=5000)
    idle = machine()
    assert not idle.expire(1000, now_ms=999)
    assert idle.expire(1000, now_ms=1000)
    assert error_of(lambda: added(idle, 0, T0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    idle.not_written()
    assert added(idle, 0, T0) is not None


# --- random schedules ---------------------------------------------------------------------------------------


@dataclass
class Client:
    """A producer as far as it knows."""

    version: int
    producer: Producer | None = None
    transaction: int = 0
    """The number of the transaction that it takes part in; 0 for none."""


@dataclass
class Request:
    """A request, which may come again at any time."""

    client: Client
    call: Callable[[], TransactionMetadata | None]
    answered: Callable[[TransactionMetadata], None]
    transaction: int
    ends: bool = False
    again: bool = False


@dataclass
class Schedule:
    """Random requests, failures and restarts of one transactional id.

    Its log and its partitions take part.
    """

    random: random.Random
    version: int
    clients: list[Client] = field(default_factory=list)
    now_ms: int = 0
    next_id: int = 100
    record: bytes = b""
    """The last record in the log."""
    in_flight: Request | None = None
    """The request whose change is being written."""
    before: list[Request] = field(default_factory=list)
    transaction: int = 0
    """The number of the last transaction."""
    partitions: dict[int, frozenset[TopicPartition]] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=dict)
    markers: dict[int, dict[TopicPartition, bool]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """The highest epoch in the log, by producer id."""
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.machine = TransactionMachine(TransactionMetadata("x", 100, TIMEOUT, 0))
        self.clients = [Client(self.random.choice([0, self.version])) for _ in range(3)]

    def time_out(self) -> TransactionMetadata | None:
        try:
            return self.machine.time_out(now_ms=self.now_ms, version=self.version, new_id=None)
        except ProducerIdNeededError:
            self.next_id += 1
            return self.machine.time_out(now_ms=self.now_ms, version=self.version, new_id=self.next_id)

    def step(self) -> None:
        self.now_ms += self.random.choice([0, 1, 1000, TIMEOUT // 3])
        if self.in_flight is not None and self.random.random() < 0.6:
            self.finish_write()
        elif self.random.random() < 0.03:
            self.crash()
        elif self.machine.metadata.state.is_prepared and self.random.random() < 0.5:
            self.write_marker()
        elif self.random.random() < 0.1:
            to = self.time_out()
            if to is not None:
                self.in_flight = Request(Client(0), lambda: None, lambda to: None, self.transaction)
        else:
            self.request()
        self.check()

    def request(self) -> None:
        if self.before and self.random.random() < 0.2:
            request = self.random.choice(self.before[-20:])
            request.again = True
        else:
            request = self.new_request(self.random.choices(self.clients, (30, 1, 1))[0])
            self.before.append(request)
        try:
            to = request.call()
        except KafkaError as error:
            self.seen.add(error.code.name)
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS and not request.again:
                request.client.producer, request.client.transaction = None, 0
            return
        if to is None:
            request.answered(self.machine.metadata)
        else:
            self.in_flight = request

    def new_request(self, client: Client) -> Request:
        producer = client.producer
        if producer is None or self.random.random() < 0.04:
            return self.init(client, producer if self.random.random() < 0.5 else None)
        if client.transaction == 0 or self.random.random() < 0.5:
            some = self.random.sample([T0, T1, T2], self.random.randint(1, 2))
            return Request(
                client,
                lambda: self.machine.add_partitions(
                    producer, some, now_ms=self.now_ms, version=client.version
                ),
                lambda to: self.was_added(client, producer, some),
                client.transaction,
            )
        commit, transaction = self.random.random() < 0.6, client.transaction
        return Request(
            client,
            lambda: self.with_id(
                lambda new_id: self.machine.end(
                    producer, commit=commit, now_ms=self.now_ms, version=client.version, new_id=new_id
                )
            ),
            lambda to: self.was_ended(client, producer, transaction, commit, to),
            transaction,
            ends=True,
        )

    def init(self, client: Client, expected: Producer | None) -> Request:
        def answered(to: TransactionMetadata) -> None:
            if to.state is State.EMPTY:
                client.producer, client.transaction = Producer(to.producer_id, to.producer_epoch), 0

        return Request(
            client,
            lambda: self.with_id(
                lambda new_id: self.machine.init(
                    TIMEOUT, expected, now_ms=self.now_ms, version=self.version, new_id=new_id
                )
            ),
            answered,
            0,
        )

    def with_id(self, call: Callable[[int | None], TransactionMetadata | None]) -> TransactionMetadata | None:
        try:
            return call(None)
        except ProducerIdNeededError:
            self.next_id += 1
            self.seen.add("another producer id")
            return call(self.next_id)

    def was_added(self, client: Client, producer: Producer, some: list[TopicPartition]) -> None:
        assert self.partitions[self.transaction].issuperset(some), "the answer is wrong"
        if client.producer == producer:
            client.transaction = self.transaction

    def was_ended(
        self, client: Client, producer: Producer, transaction: int, commit: bool, to: TransactionMetadata
    ) -> None:
        if client.version == 2:
            assert self.outcomes[transaction] is commit, "the answer is wrong"
        if client.producer == producer:
            client.transaction = 0
            if client.version == 2:
                client.producer = after_end(to)

    def finish_write(self) -> None:
        request, self.in_flight = self.in_flight, None
        assert request is not None
        if self.random.random() < 0.15:
            self.machine.not_written()
            return
        if request.ends and request.client.version == 2:
            assert request.transaction == self.transaction, "a late request has ended another transaction"
        self.append()
        metadata = self.machine.written()
        request.answered(metadata)

    def append(self) -> None:
        """The pending state is in the log."""
        now, to = self.machine.metadata, self.machine.pending
        assert to is not None
        self.record = encode_value(to, self.version)
        if now.state.is_at_rest and to.state in (State.ONGOING, State.PREPARE_ABORT):
            self.transaction += 1
        if to.state is State.ONGOING:
            self.partitions[self.transaction] = to.partitions
        elif to.state.is_prepared:
            assert self.transaction not in self.outcomes, "a transaction ends once"
            self.partitions.setdefault(self.transaction, frozenset())
            assert to.partitions == self.partitions[self.transaction], "a partition is missing"
            self.outcomes[self.transaction] = to.state is State.PREPARE_COMMIT
            self.markers[self.transaction] = {}
        assert to.producer_epoch >= self.epochs.get(to.producer_id, -1), "an epoch has gone back"
        assert to.producer_id >= max(self.epochs, default=0), "a producer id has come back"
        self.epochs[to.producer_id] = to.producer_epoch

    def crash(self) -> None:
        """Load the log again; what was being written may have reached it."""
        self.seen.add("crash")
        if self.in_flight is not None and self.random.random() < 0.5:
            self.append()
        self.in_flight = None
        metadata = self.machine.metadata
        if self.record:
            metadata = decode_value("x", self.record)
        self.machine = TransactionMachine(metadata)

    def write_marker(self) -> None:
        metadata = self.machine.metadata
        written = self.markers[self.transaction]
        missing = metadata.partitions - written.keys()
        if missing:
            written[self.random.choice(sorted(missing))] = metadata.state is State.PREPARE_COMMIT
        elif self.machine.pending is None:
            self.machine.complete(now_ms=self.now_ms)
            self.in_flight = Request(Client(0), lambda: None, lambda to: None, self.transaction)

    def check(self) -> None:
        metadata = self.machine.metadata
        self.seen.add(metadata.state.name)
        for number in (self.transaction - 1, self.transaction):
            if number not in self.outcomes:
                continue
            outcome = self.outcomes[number]
            assert set(self.markers[number].values()) <= {outcome}, "a transaction is torn"
            if number < self.transaction or metadata.state.is_at_rest:
                assert self.markers[number].keys() == self.partitions[number], "a marker is missing"
        assert (metadata.start_ms >= 0) == (metadata.state is not State.EMPTY)
        assert metadata.producer_epoch <= MAX_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [0, 2])
def test_random_schedules_never_tear_a_transaction(version: int) -> None:
    seen: set[str] = set()
    committed = aborted = 0
    for seed in range(100):
        schedule = Schedule(random.Random(seed), version)
        # Near the end of the epochs, so that producer ids are used up.
        if seed % 2:
            first = schedule.machine.metadata._replace(producer_epoch=LAST_EPOCH - seed % 7)
            schedule.machine = TransactionMachine(first)
        try:
            for _ in range(200):
                schedule.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, version {version}: {error}") from error
        seen |= schedule.seen
        committed += sum(schedule.outcomes.values())
        aborted += len(schedule.outcomes) - sum(schedule.outcomes.values())
    assert committed > 200
    assert aborted > 200
    assert seen >= {
        *(state.name for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)),
        *("crash", "another producer id"),
        *("CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"),
    }
