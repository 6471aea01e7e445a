"""A client that pretends to be a controller or a broker does no harm.

Nothing fails, and no acknowledged record is lost.

Who reaches a broker's port may send what brokers and controllers send each other. The epochs and the metadata
refuse most of it. What they cannot refuse, such as a leadership that no controller gave, is over when the
brokers restart.
"""

from __future__ import annotations

import logging
import random
from typing import Any, Final

import pytest

import kafkapy
from kafkapy import handlers
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.types import ZERO_UUID, ApiKey
from tests.cluster.test_cluster import create, produce, read, wait_until_in_sync
from tests.network.raw_client import RawClient
from tests.protocol.random_messages import random_message

REQUESTS: Final = 1500
RECORDS: Final = 50
HIGHEST: Final = 2**31 - 1

APIS: Final = (
    *(ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN),
    *(ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH),
    *(ApiKey.LIST_OFFSETS, ApiKey.ADD_PARTITIONS_TO_TXN),
)

BROKERS: Final = (1, 2, 3, 4, -1, HIGHEST)
EPOCHS: Final = (-2, -1, 0, 1, 2, 5, HIGHEST)

PLAUSIBLE: Final[dict[str, tuple[Any, ...]]] = {
    "controller_epoch": (0, 1, 1, 1, 2, HIGHEST),
    "broker_epoch": (-1, -1, 0, 2**63 - 1),
    "replica_epoch": (-1, -1, 0, 2**63 - 1),
    "partition_index": (0, 1, 2, 3, -1, HIGHEST),
    "partition": (0, 1, 2, 3, -1, HIGHEST),
    **dict.fromkeys(("leader", "replica_id", "broker_id", "controller_id"), BROKERS),
    **dict.fromkeys(("leader_epoch", "current_leader_epoch", "last_fetched_epoch"), EPOCHS),
    **dict.fromkeys(("fetch_offset", "log_start_offset"), (0, -1, RECORDS, 2**63 - 1)),
    **dict.fromkeys(("max_wait_ms", "timeout_ms"), (0, 10)),
    "session_id": (0,),
    "session_epoch": (-1, 0),
}
"""What the fields get that decide whether a request is obeyed."""


def make_plausible(message: Message, chance: random.Random, topic_id: bytes) -> None:
    """Let a random message be about a topic and brokers that exist, mostly."""
    untouched = type(message)()
    for name in message.__slots__:
        value = getattr(message, name)
        if value == getattr(untouched, name):
            continue  # maybe not a field of this version
        if isinstance(value, list):
            if value and isinstance(value[0], int):
                setattr(message, name, chance.choices(BROKERS, k=chance.randrange(1, 5)))
            for item in value:
                if isinstance(item, Message):
                    make_plausible(item, chance, topic_id)
        elif isinstance(value, Message):
            make_plausible(value, chance, topic_id)
        elif isinstance(value, str):
            setattr(message, name, chance.choice(("orders", "orders", "orders", "no", "../orders", "")))
        elif isinstance(value, bytes) and len(value) == len(ZERO_UUID):
            setattr(message, name, chance.choice((topic_id, topic_id, ZERO_UUID)))
        elif name in PLAUSIBLE:
            setattr(message, name, chance.choice(PLAUSIBLE[name]))


def pretended(chance: random.Random, topic_id: bytes) -> tuple[TopMessage, int]:
    """A request, and its version."""
    api = handlers.served(clustered=True, telemetry=True)[chance.choice(APIS)]
    version = chance.randint(api.min_version, api.max_version)
    message = random_message(chance, request_class(api.key), version)
    make_plausible(message, chance, topic_id)
    return message, version


def test_what_pretended_brokers_ask_fails_nowhere_and_loses_no_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chance = random.Random(seed := random.SystemRandom().randrange(10**6))
    with kafkapy.Cluster(brokers=3) as cluster:
        create(cluster, "orders")
        wait_until_in_sync(cluster, "orders")
        produce(cluster, "orders", range(RECORDS))
        topic_id = cluster[1].core.metadata.image.topics["orders"].id
        clients = [RawClient(address) for address in cluster.bootstrap_servers.split(",")]
        for _ in range(REQUESTS):
            message, version = pretended(chance, topic_id)
            answer = chance.choice(clients).ask(message, version)
            assert getattr(answer, "error_code", 0) >= 0, f"seed {seed}: {message}"
        for client in clients:
            client.close()
        failed = [record for record in caplog.records if record.exc_info or record.levelno > logging.ERROR]
        assert failed == [], f"seed {seed}"
        for broker in cluster:
            cluster.kill(broker)
        cluster.start()
        wait_until_in_sync(cluster, "orders")
        values = [b"%d" % number for number in range(RECORDS)]
        for partition in range(3):
            assert read(cluster.bootstrap_servers, "orders", partition, RECORDS) == values, f"seed {seed}"
