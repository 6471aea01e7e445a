"""Takes orders: an order that was taken is in the topic, once. Written with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from shop.orders import Order
from shop.topics import CANCELLATIONS, ORDERS


class NotTakenError(Exception):
    """An order was not taken; the message is the reason."""


class Receipt(NamedTuple):
    """Where an order is."""

    partition: int
    offset: int


class Intake:
    """Writes orders; an asynchronous context manager."""

    def __init__(self, servers: str) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=servers, client_id="intake", enable_idempotence=True, retry_backoff_ms=20
        )

    async def place(self, order: Order) -> Receipt:
        """Write an order; return when it is kept.

        Raises:
            NotTakenError: the broker has refused it.
        """
        return await self._written(ORDERS, order, order.encode())

    async def place_all(self, orders: Iterable[Order]) -> list[Receipt]:
        """Write orders of any customers; those of one customer stay in their order.

        Raises:
            NotTakenError: the broker has refused one.
        """
        return await asyncio.gather(*map(self.place, orders))

    async def cancel(self, order: Order) -> Receipt:
        """Write that the customer does not want an order any more.

        Raises:
            NotTakenError: the broker has refused it.
        """
        return await self._written(CANCELLATIONS, order, order.id.encode())

    async def _written(self, topic: str, order: Order, value: bytes) -> Receipt:
        headers = [("format", b"1"), ("order", order.id.encode())]
        try:
            written = await self._producer.send_and_wait(
                topic, value, order.customer.encode(), headers=headers
            )
        except KafkaError as error:
            raise NotTakenError(type(error).__name__) from error
        return Receipt(written.partition, written.offset)

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()
