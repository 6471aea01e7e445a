"""What an order is. These tests need no broker."""

from __future__ import annotations

import json

import pytest
from shop.orders import InvalidOrderError, Line, Order, decode

from tests.seed import PRICES, SEEDED, line, written


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "not JSON"),
        (b"two apples", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not an object"),
        (b'"order"', "not an object"),
        (written(lines=[]), "no lines"),
        (written(lines="apple"), "no lines"),
        (written(id=""), "no id"),
        (written(id=17), "no id"),
        (written(customer=None), "no customer"),
        (written(lines=["apple"]), "a line that is not an object"),
        (written(lines=[line(quantity=0)]), "a quantity that is not 1 to 100"),
        (written(lines=[line(quantity=-1)]), "a quantity that is not 1 to 100"),
        (written(lines=[line(quantity=101)]), "a quantity that is not 1 to 100"),
        (written(lines=[line(quantity=1.5)]), "a quantity that is not 1 to 100"),
        (written(lines=[line(quantity=True)]), "a quantity that is not 1 to 100"),
        (written(lines=[line(quantity="2")]), "a quantity that is not 1 to 100"),
        (written(lines=[line(product="")]), "no product"),
        (written(lines=[line(), line()]), "a product twice"),
    ],
)
def test_what_is_no_order_is_refused_with_the_reason(value: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidOrderError, match=f"^{reason}$"):
        decode(value)


@pytest.mark.parametrize("quantity", [1, 2, 99, 100])
def test_quantities_up_to_a_hundred_are_taken(quantity: int) -> None:
    assert decode(written(lines=[line(quantity=quantity)])).lines == (Line("apple", quantity),)


def test_what_is_not_known_is_ignored() -> None:
    assert decode(written(gift=True)) == decode(written())


def test_an_order_is_read_as_it_was_written() -> None:
    assert [decode(each.encode()) for each in SEEDED] == list(SEEDED)


def test_an_order_is_written_as_json_with_its_lines_in_order() -> None:
    order = Order("order-1", "ada", (Line("dates", 1), Line("apple", 2)))
    assert [each["product"] for each in json.loads(order.encode())["lines"]] == ["dates", "apple"]


@pytest.mark.parametrize(
    ("lines", "cents"),
    [
        ([Line("apple", 1)], 30),
        ([Line("apple", 100)], 3000),
        ([Line("bread", 2), Line("cheese", 1)], 1200),
        ([Line("apple", 3), Line("bread", 1), Line("cheese", 2), Line("dates", 4)], 3420),
    ],
)
def test_the_total_is_the_sum_of_its_lines(lines: list[Line], cents: int) -> None:
    assert Order("order-1", "ada", tuple(lines)).total(PRICES) == cents


def test_a_product_without_a_price_has_no_total() -> None:
    with pytest.raises(KeyError, match="truffle"):
        Order("order-1", "ada", (Line("truffle", 1),)).total(PRICES)
