"""Ships orders: one shipment for each, and what is no order is set aside. Written with aiokafka."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

from shop.orders import InvalidOrderError, decode
from shop.topics import DEAD_LETTERS, ORDERS, SHIPMENTS

GROUP = "fulfilment"


class Fulfilment:
    """Reads orders and writes shipments; an asynchronous context manager."""

    def __init__(self, servers: str, *, name: str = "fulfilment-1") -> None:
        self._consumer = AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=servers,
            client_id=name,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,  # a new instance waits so long for its partitions
            retry_backoff_ms=20,
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=servers, client_id=name, acks="all", retry_backoff_ms=20
        )

    async def run(self) -> None:
        """Handle orders until the task is cancelled.

        A batch is committed after its shipments are kept, so an order may be shipped twice after a crash, and
        none is forgotten.
        """
        while True:
            batches = await self._consumer.getmany(timeout_ms=1000)
            for batch in batches.values():
                for record in batch:
                    await self._handle(record)
            if batches:
                await self._consumer.commit()

    async def _handle(self, record: ConsumerRecord) -> None:
        try:
            order = decode(record.value)
        except InvalidOrderError as error:
            headers = [
                ("reason", str(error).encode()),
                ("place", f"{record.topic}-{record.partition}@{record.offset}".encode()),
            ]
            await self._producer.send_and_wait(DEAD_LETTERS, record.value, record.key, headers=headers)
            return
        parcels = json.dumps({"order": order.id, "items": sum(line.quantity for line in order.lines)})
        await self._producer.send_and_wait(SHIPMENTS, parcels.encode(), order.customer.encode())

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()
        await self._producer.stop()
