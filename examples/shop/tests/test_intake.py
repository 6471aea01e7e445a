"""The intake: an order that was taken is in the topic once, whatever the broker does."""

from __future__ import annotations

import pytest
from shop.intake import Intake, NotTakenError
from shop.orders import Line, Order, decode
from shop.topics import CANCELLATIONS, ORDERS

import kafkapy
from tests.seed import CUSTOMERS, SEEDED

NEW = Order("order-new", "ada", (Line("apple", 2), Line("bread", 1)))


def taken(broker: kafkapy.Broker) -> list[Order]:
    """The orders that were not there at the start."""
    return [order for each in broker.records(ORDERS) if (order := decode(each.value)) not in SEEDED]


async def test_a_taken_order_is_in_the_topic(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    await intake.place(NEW)
    assert taken(kafka_broker) == [NEW]


async def test_the_receipt_says_where_it_is(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    receipt = await intake.place(NEW)
    (record,) = [each for each in kafka_broker.records(ORDERS) if decode(each.value) == NEW]
    assert (record.partition, record.offset) == receipt


async def test_a_record_says_its_format_and_its_order(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    await intake.place(NEW)
    (record,) = [each for each in kafka_broker.records(ORDERS) if decode(each.value) == NEW]
    assert dict(record.headers) == {"format": b"1", "order": b"order-new"}


@pytest.mark.parametrize("customer", CUSTOMERS)
async def test_an_order_follows_the_last_one_of_its_customer(
    kafka_broker: kafkapy.Broker, intake: Intake, customer: str
) -> None:
    receipt = await intake.place(Order("order-new", customer, NEW.lines))
    of_customer = [each for each in kafka_broker.records(ORDERS) if each.key == customer.encode()]
    assert {record.partition for record in of_customer} == {receipt.partition}
    assert decode(of_customer[-1].value).id == "order-new"


async def test_many_orders_are_taken_at_once(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    many = [Order(f"order-{n}", CUSTOMERS[n % 8], NEW.lines) for n in range(100, 300)]
    assert len(set(await intake.place_all(many))) == 200
    for customer in CUSTOMERS:
        of_customer = [order for order in taken(kafka_broker) if order.customer == customer]
        assert of_customer == [order for order in many if order.customer == customer]


async def test_a_cancellation_names_the_order(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    await intake.cancel(SEEDED[3])
    (record,) = kafka_broker.topic(CANCELLATIONS).records(1)
    assert (record.key, record.value) == (b"dee", b"order-3")


@pytest.mark.parametrize(
    "code",
    [
        "COORDINATOR_LOAD_IN_PROGRESS",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ],
)
async def test_an_order_is_taken_although_the_broker_refuses_it_at_first(
    kafka_broker: kafkapy.Broker, intake: Intake, code: str
) -> None:
    refusal = kafka_broker.faults.produce(topic=ORDERS).error(code, times=2)
    await intake.place(NEW)
    assert refusal.hits == 2
    assert taken(kafka_broker) == [NEW]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("INVALID_TIMESTAMP", "InvalidTimestampError"),
        ("MESSAGE_TOO_LARGE", "MessageSizeTooLargeError"),
        ("RECORD_LIST_TOO_LARGE", "RecordListTooLargeError"),
        ("TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationFailedError"),
    ],
)
async def test_a_customer_is_told_why_an_order_was_not_taken(
    kafka_broker: kafkapy.Broker, intake: Intake, code: str, reason: str
) -> None:
    kafka_broker.faults.produce(topic=ORDERS).error(code)
    with pytest.raises(NotTakenError, match=reason):
        await intake.place(NEW)
    assert taken(kafka_broker) == []


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_an_order_is_taken_once_although_answers_are_lost(
    kafka_broker: kafkapy.Broker, intake: Intake, times: int
) -> None:
    lost = kafka_broker.faults.produce(topic=ORDERS).disconnect(after_effect=True, times=times)
    await intake.place(NEW)
    assert lost.hits == times
    assert taken(kafka_broker) == [NEW]


async def test_an_order_is_taken_although_its_connection_ends_before_it_is_kept(
    kafka_broker: kafkapy.Broker, intake: Intake
) -> None:
    lost = kafka_broker.faults.produce(topic=ORDERS).disconnect(times=1)
    await intake.place(NEW)
    assert (lost.hits, taken(kafka_broker)) == (1, [NEW])


async def test_a_slow_broker_only_delays_an_order(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    slow = kafka_broker.faults.produce(topic=ORDERS).delay(0.05, times=1)
    await intake.place(NEW)
    assert (slow.hits, taken(kafka_broker)) == (1, [NEW])


async def test_an_order_waits_until_the_disk_has_room(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    full = kafka_broker.faults.disk(topic=ORDERS).fill(times=3)
    await intake.place(NEW)
    assert full.hits == 3
    assert taken(kafka_broker) == [NEW]


async def test_an_intake_outlives_an_outage(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    await intake.place(NEW)
    kafka_broker.stop()
    kafka_broker.start()
    await intake.place(Order("order-later", "ada", NEW.lines))
    assert [order.id for order in taken(kafka_broker)] == ["order-new", "order-later"]


async def test_a_taken_order_outlives_a_crash(kafka_broker: kafkapy.Broker, intake: Intake) -> None:
    await intake.place(NEW)
    kafka_broker.kill()
    kafka_broker.start()
    assert taken(kafka_broker) == [NEW]


@pytest.mark.kafka(config={"message.max.bytes": 300})
@pytest.mark.parametrize(("lines", "is_taken"), [(1, True), (20, False)])
async def test_an_order_may_be_too_large(
    kafka_broker: kafkapy.Broker, intake: Intake, lines: int, is_taken: bool
) -> None:
    large = Order("order-large", "ada", tuple(Line(f"product-{n}", 1) for n in range(lines)))
    if is_taken:
        await intake.place(large)
    else:
        with pytest.raises(NotTakenError, match="MessageSizeTooLargeError"):
            await intake.place(large)
    assert (taken(kafka_broker) == [large]) is is_taken
