"""Orders: what they look like in the topic `orders`, and which of them are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_OF_A_PRODUCT = 100


class InvalidOrderError(ValueError):
    """What was written is no order; the message says why."""


@dataclass(frozen=True)
class Line:
    """So many of one product."""

    product: str
    quantity: int


@dataclass(frozen=True)
class Order:
    """What a customer wants."""

    id: str
    customer: str
    lines: tuple[Line, ...]

    def encode(self) -> bytes:
        """The order as JSON, as it is written to the topic."""
        lines = [{"product": line.product, "quantity": line.quantity} for line in self.lines]
        return json.dumps({"id": self.id, "customer": self.customer, "lines": lines}).encode()

    def total(self, prices: Mapping[str, int]) -> int:
        """What it costs, in cents.

        Raises:
            KeyError: a product has no price.
        """
        return sum(prices[line.product] * line.quantity for line in self.lines)


def decode(value: bytes | None) -> Order:
    """The order that a record has.

    Raises:
        InvalidOrderError: it has none.
    """
    if value is None:
        raise InvalidOrderError("no value")
    try:
        written = json.loads(value)
    except ValueError as error:
        raise InvalidOrderError("not JSON") from error
    if not isinstance(written, dict):
        raise InvalidOrderError("not an object")
    lines = written.get("lines")
    if not isinstance(lines, list) or not lines:
        raise InvalidOrderError("no lines")
    order = Order(_text(written, "id"), _text(written, "customer"), tuple(_line(each) for each in lines))
    products = [line.product for line in order.lines]
    if len(set(products)) < len(products):
        raise InvalidOrderError("a product twice")
    return order


def _line(written: Any) -> Line:
    if not isinstance(written, dict):
        raise InvalidOrderError("a line that is not an object")
    quantity = written.get("quantity")
    if type(quantity) is not int or not 1 <= quantity <= MOST_OF_A_PRODUCT:
        raise InvalidOrderError(f"a quantity that is not 1 to {MOST_OF_A_PRODUCT}")
    return Line(_text(written, "product"), quantity)


def _text(written: dict[str, Any], name: str) -> str:
    value = written.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidOrderError(f"no {name}")
    return value
