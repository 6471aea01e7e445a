"""How much there is of each product: a compacted topic, read as a table. Written with confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, Producer

from shop.orders import Order
from shop.reading import read_all
from shop.topics import STOCK


class OutOfStockError(Exception):
    """There is not enough of a product; the message names it."""


class NotWrittenError(Exception):
    """A level was not kept; the message is the broker's reason."""


class Stock:
    """Writes and reads the table. There is one writer."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "stock",
                "linger.ms": 0,
                "log.connection.close": False,
            }
        )
        self._levels: dict[str, int] = read_stock(servers)

    @property
    def levels(self) -> Mapping[str, int]:
        """What there is, by product."""
        return self._levels

    def set(self, product: str, level: int) -> None:
        """Write how much there is of a product.

        Raises:
            ValueError: less than none.
            NotWrittenError: the broker has refused it.
        """
        if level < 0:
            raise ValueError(f"{product}: {level} is less than none")
        self._write(product, str(level))
        self._levels[product] = level

    def remove(self, product: str) -> None:
        """Forget a product, by a tombstone.

        Raises:
            NotWrittenError: the broker has refused it.
        """
        self._write(product, None)
        self._levels.pop(product, None)

    def take(self, order: Order) -> None:
        """Take what an order needs: all of it or nothing.

        Raises:
            OutOfStockError: there is too little of a product.
        """
        for line in order.lines:
            if self._levels.get(line.product, 0) < line.quantity:
                raise OutOfStockError(line.product)
        for line in order.lines:
            self.set(line.product, self._levels[line.product] - line.quantity)

    def _write(self, product: str, value: str | None) -> None:
        errors: list[KafkaError] = []
        self._producer.produce(
            STOCK, key=product, value=value, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        self._producer.flush()
        if errors[0] is not None:
            raise NotWrittenError(errors[0].name())


def read_stock(servers: str) -> dict[str, int]:
    """The table as it is now: the last value of each product, without those that were removed."""
    levels = {record.key().decode(): record.value() for record in read_all(servers, STOCK)}
    return {product: int(level) for product, level in levels.items() if level is not None}
