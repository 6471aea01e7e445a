"""What was ordered: reports over all orders of now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from shop.orders import InvalidOrderError, Order, decode
from shop.reading import read_all
from shop.topics import CANCELLATIONS, ORDERS


def revenue(servers: str, prices: Mapping[str, int]) -> Counter[str]:
    """Cents by customer, without cancelled orders."""
    cents: Counter[str] = Counter()
    for order in _standing(servers):
        cents[order.customer] += order.total(prices)
    return cents


def sold(servers: str) -> Counter[str]:
    """Items by product, without cancelled orders."""
    items: Counter[str] = Counter()
    for order in _standing(servers):
        for line in order.lines:
            items[line.product] += line.quantity
    return items


def history(servers: str, customer: str) -> list[str]:
    """The ids of all orders of a customer, as they were placed."""
    return [order.id for order in _orders(servers) if order.customer == customer]


def refused(servers: str) -> Counter[str]:
    """How many records are no orders, by the reason."""
    reasons: Counter[str] = Counter()
    for record in read_all(servers, ORDERS):
        try:
            decode(record.value())
        except InvalidOrderError as error:
            reasons[str(error)] += 1
    return reasons


def _standing(servers: str) -> Iterator[Order]:
    cancelled = {record.value() for record in read_all(servers, CANCELLATIONS)}
    return (order for order in _orders(servers) if order.id.encode() not in cancelled)


def _orders(servers: str) -> Iterator[Order]:
    for record in read_all(servers, ORDERS):
        try:
            yield decode(record.value())
        except InvalidOrderError:
            continue
