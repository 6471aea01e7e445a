"""Producer states: what Kafka's ProducerStateManager accepts, refuses and remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import MAX_SEQUENCE, Record, build_batch
from kafkapy.protocol.records import read_header as header_of
from kafkapy.storage.log.markers import TransactionMarker, read_marker
from kafkapy.storage.log.producers import NO_UNSTABLE_OFFSET, ProducerStates
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.log.validate import AppendOrigin
from tests.storage.log.producer_batches import DAY, NOW, data, marker, prepared, write

CLIENT, COORDINATOR, REPLICATION = AppendOrigin


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates(expiration_ms=DAY)


def refused(states: ProducerStates, header: object, origin: AppendOrigin = CLIENT) -> ErrorCode:
    before = {pid: (entry.epoch, entry.last_sequence, entry.batches) for pid, entry in states}
    with pytest.raises(KafkaError) as raised:
        write(states, header, origin)  # type: ignore[arg-type]
    assert {pid: (entry.epoch, entry.last_sequence, entry.batches) for pid, entry in states} == before
    return raised.value.code


# --- sequences ----------------------------------------------------------------------------------------------


def test_a_batch_without_producer_id_changes_nothing(states: ProducerStates) -> None:
    assert states.prepare([prepared(data(0, -1, producer_id=-1))], origin=CLIENT, now_ms=NOW) is None


def test_sequences_must_follow_one_another(states: ProducerStates) -> None:
    write(states, data(0, 0, count=3))
    write(states, data(3, 3))
    assert refused(states, data(4, 5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, data(4, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, data(4, 4))


def test_an_unknown_producer_may_start_anywhere(states: ProducerStates) -> None:
    write(states, data(0, 77))
    assert refused(states, data(1, 79)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, data(1, 78))


def test_sequences_wrap_from_their_maximum_to_zero(states: ProducerStates) -> None:
    write(states, data(0, MAX_SEQUENCE - 1, count=2))
    write(states, data(2, 0, count=2))
    write(states, data(4, 2))


def test_a_batch_may_wrap_within(states: ProducerStates) -> None:
    write(states, data(0, MAX_SEQUENCE - 1, count=4))
    assert states.get(1).last_sequence == 1  # type: ignore[union-attr]
    duplicate = write(states, data(4, MAX_SEQUENCE - 1, count=4)).duplicate
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (0, 3)
    assert duplicate.first_sequence == MAX_SEQUENCE - 1
    write(states, data(4, 2))


def test_the_last_five_batches_are_recognised_as_duplicates(states: ProducerStates) -> None:
    for number in range(7):
        write(states, data(number * 10, number * 2, count=2))
    for number in range(2, 7):
        duplicate = write(states, data(70, number * 2, count=2)).duplicate
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (number * 10, number * 10 + 1)
        assert duplicate.timestamp == NOW
    for number in range(2):
        assert refused(states, data(70, number * 2, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_a_known_one_is_out_of_order(states: ProducerStates) -> None:
    write(states, data(0, 0, count=4))
    assert refused(states, data(4, 0, count=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, data(4, 1, count=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, data(4, 2, count=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_do_not_disturb_each_other(states: ProducerStates) -> None:
    write(states, data(0, 0, producer_id=1))
    write(states, data(1, 0, producer_id=2))
    write(states, data(2, 1, producer_id=1))
    assert len(states) == 2


# --- epochs -------------------------------------------------------------------------------------------------


def test_a_zombie_with_an_older_epoch_is_refused(states: ProducerStates) -> None:
    write(states, data(0, 0, epoch=3))
    assert refused(states, data(1, 1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(states, data(1, 0, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_sequence_zero(states: ProducerStates) -> None:
    write(states, data(0, 5, epoch=0))
    assert refused(states, data(1, 6, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, data(1, 0, epoch=1))


def test_batches_of_an_older_epoch_are_no_duplicates(states: ProducerStates) -> None:
    write(states, data(0, 0, epoch=0))
    assert write(states, data(1, 0, epoch=1)).duplicate is None
    assert write(states, data(2, 0, epoch=1)).duplicate is not None


def test_a_follower_takes_what_the_leader_took(states: ProducerStates) -> None:
    write(states, data(0, 5, epoch=3), REPLICATION)
    write(states, data(1, 9, epoch=1), REPLICATION)
    assert states.get(1).epoch == 1  # type: ignore[union-attr]


def test_a_coordinator_writes_without_sequences(states: ProducerStates) -> None:
    verified = states.begin_verification(1, 0, -1, now_ms=NOW)
    write(states, data(0, -1, transactional=True), COORDINATOR, verification=verified)
    write(states, data(1, -1, transactional=True), COORDINATOR)
    assert refused(states, data(2, -1, transactional=True, epoch=-1), COORDINATOR) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


# --- transactions -------------------------------------------------------------------------------------------


def begin(states: ProducerStates, offset: int, sequence: int = 0, producer_id: int = 1) -> None:
    verified = states.begin_verification(producer_id, 0, sequence, now_ms=NOW)
    batch = data(offset, sequence, producer_id=producer_id, transactional=True)
    write(states, batch, verification=verified)


def end(
    states: ProducerStates, offset: int, *, aborted: bool, producer_id: int = 1, coordinator_epoch: int = 0
) -> list[AbortedTxn]:
    written: list[AbortedTxn] = []
    batch = marker(offset, aborted=aborted, producer_id=producer_id, coordinator_epoch=coordinator_epoch)
    updates = states.prepare([batch], origin=COORDINATOR, now_ms=NOW)
    assert updates is not None
    states.commit(updates, written.append)
    return written


def test_a_transaction_that_nobody_confirmed_is_refused(states: ProducerStates) -> None:
    assert refused(states, data(0, 0, transactional=True)) == ErrorCode.INVALID_TXN_STATE
    begin(states, 0)
    write(states, data(1, 1, transactional=True))
    end(states, 2, aborted=False)
    assert refused(states, data(3, 2, transactional=True)) == ErrorCode.INVALID_TXN_STATE


def test_the_end_of_a_transaction_ends_the_verification_of_the_next(states: ProducerStates) -> None:
    late = states.begin_verification(1, 0, 0, now_ms=NOW)
    end(states, 0, aborted=True)
    batch = data(1, 0, transactional=True)
    with pytest.raises(KafkaError, match="not part of an ongoing transaction"):
        write(states, batch, verification=late)
    begin(states, 1)


def test_a_producer_of_a_new_epoch_is_verified_within_its_transaction(states: ProducerStates) -> None:
    begin(states, 0)
    assert states.begin_verification(1, 0, 1, now_ms=NOW) is None
    assert refused(states, data(1, 0, epoch=1, transactional=True)) == ErrorCode.INVALID_TXN_STATE
    verified = states.begin_verification(1, 1, 0, now_ms=NOW)
    write(states, data(1, 0, epoch=1, transactional=True), verification=verified)


def test_a_batch_does_not_overtake_one_whose_verification_failed(states: ProducerStates) -> None:
    states.begin_verification(1, 0, 5, now_ms=NOW)
    second = states.begin_verification(1, 0, 6, now_ms=NOW)
    with pytest.raises(KafkaError, match=r"6 \(incoming\), 5 \(expected\)"):
        write(states, data(0, 6, transactional=True), verification=second)
    write(states, data(0, 5, transactional=True), verification=second)
    write(states, data(1, 6, transactional=True))


def test_a_transaction_with_an_epoch_of_its_own_begins_at_sequence_zero(states: ProducerStates) -> None:
    verified = states.begin_verification(1, 0, 2, begins_at_zero=True, now_ms=NOW)
    with pytest.raises(KafkaError, match=r"2 \(incoming\), 0 \(expected\)"):
        write(states, data(0, 2, transactional=True), verification=verified)
    write(states, data(0, 0, transactional=True), verification=verified)


def test_a_verification_that_nobody_used_expires(states: ProducerStates) -> None:
    old = states.begin_verification(1, 0, 0, now_ms=NOW)
    states.expire(NOW + DAY - 1)
    assert states.begin_verification(1, 0, 0, now_ms=NOW) is old
    states.expire(NOW + DAY)
    assert states.begin_verification(1, 0, 0, now_ms=NOW) is not old


def test_a_marker_that_ends_an_epoch_has_a_higher_one(states: ProducerStates) -> None:
    def end_epoch(epoch: int) -> None:
        batch = marker(1, aborted=False, epoch=epoch, ends_epoch=True)
        updates = states.prepare([batch], origin=COORDINATOR, now_ms=NOW)
        assert updates is not None
        states.commit(updates)

    begin(states, 0)
    with pytest.raises(KafkaError, match="not larger"):
        end_epoch(0)
    assert states.is_in_transaction(1, 0)
    end_epoch(1)
    assert not states.is_in_transaction(1, 1)
    end_epoch(1)  # a marker that is sent again


def test_a_plain_batch_within_a_transaction_is_refused(states: ProducerStates) -> None:
    begin(states, 0)
    assert refused(states, data(1, 1)) == ErrorCode.INVALID_TXN_STATE


def test_the_earliest_undecided_transaction_is_where_unstable_offsets_begin(
    states: ProducerStates,
) -> None:
    assert states.first_unstable_offset == NO_UNSTABLE_OFFSET
    begin(states, 10, producer_id=1)
    begin(states, 20, producer_id=2)
    assert states.first_unstable_offset == 10
    end(states, 30, aborted=False, producer_id=1)
    assert states.first_unstable_offset == 10, "the marker is not replicated yet"
    states.high_watermark_moved(30)
    assert states.first_unstable_offset == 10
    states.high_watermark_moved(31)
    assert states.first_unstable_offset == 20
    end(states, 31, aborted=True, producer_id=2)
    states.high_watermark_moved(32)
    assert states.first_unstable_offset == NO_UNSTABLE_OFFSET


def test_an_aborted_transaction_goes_to_the_index_with_the_last_stable_offset(states: ProducerStates) -> None:
    begin(states, 10, producer_id=1)
    begin(states, 20, producer_id=2)
    assert end(states, 30, aborted=True, producer_id=1) == [AbortedTxn(1, 10, 30, 20)]
    assert end(states, 31, aborted=True, producer_id=2) == [AbortedTxn(2, 20, 31, 32)]
    begin(states, 32, sequence=1, producer_id=1)
    assert end(states, 40, aborted=False, producer_id=1) == []


def test_a_transaction_stays_open_when_the_index_cannot_be_written(states: ProducerStates) -> None:
    begin(states, 10)
    updates = states.prepare([marker(11, aborted=True)], origin=COORDINATOR, now_ms=NOW)
    assert updates is not None

    def fail(_: AbortedTxn) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        states.commit(updates, fail)
    states.high_watermark_moved(100)
    assert states.first_unstable_offset == 10


def test_a_marker_without_a_transaction_only_moves_the_epoch(states: ProducerStates) -> None:
    assert end(states, 5, aborted=True) == []
    assert states.first_unstable_offset == NO_UNSTABLE_OFFSET
    assert refused(states, data(6, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, data(6, 0))


def test_a_marker_of_a_fenced_coordinator_is_refused(states: ProducerStates) -> None:
    begin(states, 0)
    end(states, 1, aborted=False, coordinator_epoch=3)
    begin(states, 2, sequence=1)
    with pytest.raises(KafkaError) as raised:
        end(states, 3, aborted=False, coordinator_epoch=2)
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_sequences_go_on_after_a_transaction(states: ProducerStates) -> None:
    begin(states, 0)
    end(states, 1, aborted=False)
    begin(states, 2, sequence=1)
    assert states.get(1).txn_first_offset == 2  # type: ignore[union-attr]


# --- replay, expiry -----------------------------------------------------------------------------------------


def control_batch(offset: int, control_type: ControlType, producer_id: int = 1) -> memoryview:
    record = Record(-1, NOW, control_record_key(control_type), end_txn_marker_value(4))
    return memoryview(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )


def test_a_marker_is_read_from_its_batch() -> None:
    batch = control_batch(7, ControlType.ABORT)
    assert read_marker(header_of(batch), batch) == TransactionMarker(True, 4, NOW)
    batch = control_batch(7, ControlType.COMMIT)
    assert read_marker(header_of(batch), batch) == TransactionMarker(False, 4, NOW)


def test_replaying_the_log_gives_the_same_state(states: ProducerStates) -> None:
    first = memoryview(
        build_batch(
            [Record(timestamp=NOW, value=b"x")],
            base_offset=3,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    states.replay(header_of(first), first, NOW)
    assert (states.end_offset, states.first_unstable_offset) == (4, 3)
    last = control_batch(4, ControlType.ABORT)
    written: list[AbortedTxn] = []
    states.replay(header_of(last), last, NOW, written.append)
    assert written == [AbortedTxn(1, 3, 4, 5)]
    states.high_watermark_moved(5)
    assert (states.end_offset, states.first_unstable_offset) == (5, NO_UNSTABLE_OFFSET)


def test_an_idle_producer_is_forgotten(states: ProducerStates) -> None:
    write(states, data(0, 0))
    assert states.expire(NOW + DAY - 1) == 0
    assert states.expire(NOW + DAY) == 1
    write(states, data(1, 17))


def test_a_producer_with_an_open_transaction_is_not_forgotten(states: ProducerStates) -> None:
    begin(states, 0)
    assert states.expire(NOW + 10 * DAY) == 0


def test_a_producer_of_old_timestamps_is_remembered_while_it_writes(states: ProducerStates) -> None:
    write(states, data(0, 0, timestamp=1))
    assert states.expire(NOW + DAY // 4) == 0
    assert states.expire(NOW + DAY) == 1


def test_deleting_records_keeps_their_producers(states: ProducerStates) -> None:
    write(states, data(0, 0))
    states.log_start_moved(10)
    assert states.end_offset == 10
    write(states, data(10, 1))


# --- against a model ----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 2),
        st.sampled_from([-3, -2, -1, 0, 0, 0, 1, MAX_SEQUENCE]),
        st.integers(1, 3),
    ),
    max_size=40,
)


@given(STEPS)
def test_accepted_batches_always_continue_the_sequence(steps: list[tuple[int, int, int, int]]) -> None:
    states = ProducerStates(expiration_ms=DAY)
    epochs: dict[int, int] = {}
    batches: dict[int, list[tuple[int, int, int]]] = {}
    offset = 0
    for producer_id, epoch, jump, count in steps:
        history = batches.setdefault(producer_id, [])
        expected = (history[-1][1] + 1) & MAX_SEQUENCE if history else 0
        first = (expected + jump) & MAX_SEQUENCE
        last = (first + count - 1) & MAX_SEQUENCE
        header = data(offset, first, count=count, producer_id=producer_id, epoch=epoch)
        known = epochs.get(producer_id)
        duplicates = [b for b in history[-5:] if known == epoch and b[:2] == (first, last)]
        if duplicates:
            answer = write(states, header).duplicate
            assert answer is not None
            assert answer.first_offset == duplicates[0][2]
        elif known is not None and epoch < known:
            assert refused(states, header) == ErrorCode.INVALID_PRODUCER_EPOCH
        elif (known == epoch and first != expected) or (known is not None and known != epoch and first != 0):
            assert refused(states, header) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            assert write(states, header).duplicate is None
            if known != epoch:
                history.clear()
            epochs[producer_id] = epoch
            history.append((first, last, offset))
            offset += count
