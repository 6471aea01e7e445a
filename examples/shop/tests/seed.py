"""What is in the topics before each test: forty orders of eight customers, stock and prices."""

from __future__ import annotations

import json

from confluent_kafka.admin import AdminClient, NewTopic
from shop.orders import Line, Order
from shop.topics import COMPACTED, DEAD_LETTERS, ORDERS, PARTITIONS, STOCK

import kafkapy

CUSTOMERS = ("ada", "bo", "cy", "dee", "eve", "fay", "gus", "hal")
PRICES = {"apple": 30, "bread": 250, "cheese": 700, "dates": 420}
LEVELS = {"apple": 500, "bread": 40, "cheese": 12, "dates": 0}


def order(number: int) -> Order:
    """The order of a number: apples, and for some customers something else."""
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    lines = [Line("apple", 1 + number % 5)]
    if number % 2:
        lines.append(Line("bread", 1))
    if number % 8 == 4:
        lines.append(Line("cheese", 2))
    return Order(f"order-{number}", customer, tuple(lines))


SEEDED = tuple(order(number) for number in range(40))


def fill(broker: kafkapy.Broker) -> None:
    """Fill a broker as a shop that has been open for a while."""
    compacted = {"cleanup.policy": "compact"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [
        NewTopic(topic, partitions, config=compacted if topic in COMPACTED else {})
        for topic, partitions in PARTITIONS.items()
    ]
    for created in admin.create_topics(topics).values():
        created.result(20)
    for each in SEEDED:
        broker.produce(ORDERS, key=each.customer, value=each.encode(), headers={"format": "1"})
    for product, level in LEVELS.items():
        broker.produce(STOCK, key=product, value=str(level))
    broker.produce(DEAD_LETTERS, key="zoe", value="an old mistake", headers={"reason": "not JSON"})


def line(product: object = "apple", quantity: object = 1) -> dict[str, object]:
    """A line of an order as it is written."""
    return {"product": product, "quantity": quantity}


def written(**changes: object) -> bytes:
    """An order as it is written, with changes."""
    return json.dumps({"id": "order-99", "customer": "ada", "lines": [line()], **changes}).encode()
