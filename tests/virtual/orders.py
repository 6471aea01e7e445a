"""What tests in virtual time do with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafkapy import Cluster, VirtualCluster

TOPIC = "orders"

T = TypeVar("T")


def run(main: Callable[[VirtualCluster], Coroutine[Any, Any, T]], brokers: int = 3, seed: int = 7) -> T:
    """Run a test with a virtual cluster."""
    return Cluster(brokers, seed=seed, clock="virtual").run(main)


@asynccontextmanager
async def producing(cluster: VirtualCluster, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    """A producer of aiokafka."""
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, **{"acks": "all", **options}
    ) as producer:
        yield producer


@asynccontextmanager
async def consuming(cluster: VirtualCluster, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer of aiokafka, of the topic."""
    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **options
    ) as consumer:
        yield consumer


async def values_of(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    """The values of the next records."""
    return [(await asyncio.wait_for(consumer.getone(), 300)).value for _ in range(count)]


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()
