"""The stock: a table in a compacted topic."""

from __future__ import annotations

import pytest
from shop.orders import Line, Order
from shop.stock import NotWrittenError, OutOfStockError, Stock, read_stock
from shop.topics import STOCK

import kafkapy
from tests.seed import LEVELS, SEEDED


@pytest.fixture
def stock(servers: str) -> Stock:
    return Stock(servers)


def wanting(product: str, quantity: int) -> Order:
    return Order("order-new", "ada", (Line("apple", 1), Line(product, quantity)))


def test_the_table_is_what_was_written(servers: str) -> None:
    assert read_stock(servers) == LEVELS


@pytest.mark.parametrize("product", LEVELS)
def test_a_later_level_counts(servers: str, stock: Stock, product: str) -> None:
    stock.set(product, 7)
    assert read_stock(servers) == {**LEVELS, product: 7}


@pytest.mark.parametrize("product", LEVELS)
def test_a_removed_product_is_not_in_the_table(
    kafka_broker: kafkapy.Broker, servers: str, stock: Stock, product: str
) -> None:
    stock.remove(product)
    assert kafka_broker.records(STOCK)[-1].value is None
    assert product not in read_stock(servers)


def test_a_product_can_come_back(servers: str, stock: Stock) -> None:
    stock.remove("dates")
    stock.set("dates", 5)
    assert read_stock(servers)["dates"] == 5


@pytest.mark.parametrize(
    ("product", "quantity", "left"), [("bread", 1, 39), ("bread", 40, 0), ("cheese", 12, 0)]
)
def test_an_order_takes_what_it_needs(
    servers: str, stock: Stock, product: str, quantity: int, left: int
) -> None:
    stock.take(wanting(product, quantity))
    assert read_stock(servers) == {**LEVELS, "apple": 499, product: left}


@pytest.mark.parametrize(
    ("product", "quantity"), [("bread", 41), ("cheese", 13), ("dates", 1), ("truffle", 1)]
)
def test_an_order_takes_nothing_if_one_product_is_out(
    servers: str, stock: Stock, product: str, quantity: int
) -> None:
    with pytest.raises(OutOfStockError, match=product):
        stock.take(wanting(product, quantity))
    assert read_stock(servers) == LEVELS


def test_cheese_is_out_after_the_sixth_order_of_two(stock: Stock) -> None:
    for number in range(6):
        stock.take(wanting("cheese", 2))
        assert stock.levels["cheese"] == 10 - 2 * number
    with pytest.raises(OutOfStockError, match="cheese"):
        stock.take(wanting("cheese", 2))


def test_the_orders_of_before_can_be_delivered(servers: str, stock: Stock) -> None:
    for order in SEEDED:
        stock.take(order)
    assert read_stock(servers) == stock.levels == {**LEVELS, "apple": 380, "bread": 20, "cheese": 2}


def test_there_is_never_less_than_none(kafka_broker: kafkapy.Broker, stock: Stock) -> None:
    with pytest.raises(ValueError, match="less than none"):
        stock.set("bread", -1)
    assert len(kafka_broker.records(STOCK)) == len(LEVELS)


def test_what_was_not_kept_is_not_in_the_table(kafka_broker: kafkapy.Broker, stock: Stock) -> None:
    kafka_broker.faults.produce(topic=STOCK).error("TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(NotWrittenError, match="TOPIC_AUTHORIZATION_FAILED"):
        stock.set("bread", 1)
    assert stock.levels == LEVELS


def test_a_record_without_a_key_is_refused_by_the_topic(kafka_broker: kafkapy.Broker) -> None:
    with pytest.raises(ValueError, match=r"[Cc]ompact"):
        kafka_broker.produce(STOCK, value="17")


@pytest.mark.kafka(clock="manual", config={"log.cleaner.min.cleanable.ratio": 0.01, "log.roll.ms": 1000})
def test_compaction_leaves_the_last_level(kafka_broker: kafkapy.Broker, servers: str, stock: Stock) -> None:
    for level in range(20):
        stock.set("bread", level)
    kafka_broker.clock.advance(hours=1)
    stock.set("cheese", 1)
    kafka_broker.clock.advance(hours=1)
    kept = [each.value for each in kafka_broker.records(STOCK) if each.key == b"bread"]
    assert kept == [b"19"]
    assert read_stock(servers) == {**LEVELS, "bread": 19, "cheese": 1}
