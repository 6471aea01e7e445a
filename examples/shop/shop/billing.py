"""Writes bills: exactly one for each order, by transactions. Written with aiokafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from shop.orders import InvalidOrderError, decode
from shop.topics import BILLS, ORDERS

GROUP = "billing"


class Billing:
    """Reads orders and writes bills; an asynchronous context manager.

    Args:
        servers: the brokers.
        prices: cents by product.
        name: the transactional id: of two with the same, the later one fences the earlier one. With others
            they might bill an order twice: aiokafka does not wait for offsets of an open transaction.
    """

    def __init__(self, servers: str, prices: Mapping[str, int], *, name: str = "billing-1") -> None:
        self._prices = prices
        self._consumer = AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=servers,
            client_id=name,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            heartbeat_interval_ms=500,  # a new instance waits so long for its partitions
            retry_backoff_ms=20,
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=servers, client_id=name, transactional_id=name, retry_backoff_ms=20
        )

    async def bill(self, count: int) -> int:
        """Bill the next `count` orders in one transaction; return what they cost together, in cents.

        What is no order is passed over. If the transaction fails, nothing is billed.

        Raises:
            KeyError: a product has no price.
            aiokafka.errors.KafkaError: the transaction failed, or another instance has taken over.
        """
        cents = 0
        async with self._producer.transaction():
            offsets = {}
            for _ in range(count):
                record = await self._consumer.getone()
                cents += await self._write_bill(record.value)
                (partition,) = [
                    each for each in self._consumer.assignment() if each.partition == record.partition
                ]
                offsets[partition] = record.offset + 1
            await self._producer.send_offsets_to_transaction(offsets, GROUP)
        return cents

    async def _write_bill(self, value: bytes | None) -> int:
        try:
            order = decode(value)
        except InvalidOrderError:
            return 0
        cents = order.total(self._prices)
        bill = json.dumps({"order": order.id, "cents": cents})
        await self._producer.send_and_wait(BILLS, bill.encode(), order.customer.encode())
        return cents

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()
        await self._producer.stop()
