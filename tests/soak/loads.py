"""The loads of a broker for an hour, each a step that is repeated at its pace.

Between two periods all clients are closed, so that what the broker still holds is its own.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from tests.crash.load import Committer, RecordingProducer, create_topic, random_value, read_pass
from tests.network.raw_client import RawClient, api_versions, correlation_ids
from tests.promises.history import History, Partition
from tests.security.certificates import Certificates, trusting
from tests.soak.secure_broker import ADMIN, ADMIN_PASSWORD, PASSWORD, USER, SecureBroker

SECONDS: Final = 30
BULK: Final = "bulk"
QUOTA: Final = 500_000
"""Bytes a second that the producer of the bulk may send."""


class Load(ABC):
    """Repeats `step` in a thread of its own, `pace` seconds apart if it keeps up."""

    pace: float

    def __init__(self, broker: SecureBroker) -> None:
        self.broker = broker
        self.done: Counter[str] = Counter()
        """How often it did what."""
        self.failures: list[str] = []
        self._over = threading.Event()

    @abstractmethod
    def step(self) -> None:
        """Do it once."""

    @abstractmethod
    def close(self) -> None:
        """Close the clients."""

    def start(self) -> None:
        """Begin a period."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End a period: finish the step, and close the clients."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._over.is_set():
                self.step()
                due = max(due + self.pace, time.monotonic() - self.pace)
                self._over.wait(max(0.0, due - time.monotonic()))
        except Exception as error:
            self.failures.append(f"{type(self).__name__}: {error!r}")
        finally:
            self.close()


class Records(Load):
    """Producers, readers and commits whose history is judged at the end."""

    pace = 0.1
    TOPICS: Final = {
        "kept": {"segment.bytes": str(1 << 20)},
        "compacted": {
            "cleanup.policy": "compact",
            "segment.bytes": str(1 << 20),
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "1000",
        },
    }

    def __init__(self, broker: SecureBroker, seed: int) -> None:
        super().__init__(broker)
        self.history: History = []
        self._chance = random.Random(seed)
        self._partitions: list[Partition] = []
        for topic, config in self.TOPICS.items():
            create_topic(broker.secure_address, topic, 2, config, broker.client(admin=True))
            self._partitions += [(topic, 0), (topic, 1)]
        self._ends = dict.fromkeys(self._partitions, 0)
        self._numbers = itertools.count()
        self._clients: tuple[RecordingProducer, RecordingProducer, Committer] | None = None
        self._steps = 0

    def step(self) -> None:
        """Send a few records; now and then commit, and read what is new."""
        if self._clients is None:
            self._clients = self._connect()
        *producers, committer = self._clients
        for _ in range(4):
            chance = self._chance
            chance.choice(producers).send(chance.choice(self._partitions), random_value(chance, 4000))
            self.done["records sent"] += 1
        for producer in producers:
            producer.poll()
        self._steps += 1
        if self._steps % 10 == 0:
            partition = self._chance.choice(self._partitions)
            committer.commit(partition, self._chance.randrange(self._ends[partition] + 1))
            self.done["commits"] += 1
        if self._steps % 100 == 0:
            self.read({partition: max(0, end - 300) for partition, end in self._ends.items()})

    def read(self, starts: dict[Partition, int] | None = None) -> None:
        """Read from these offsets, or everything, to the end."""
        address, name = self.broker.secure_address, f"reader-{next(self._numbers)}"
        starts = starts or dict.fromkeys(self._partitions, 0)
        self._ends = read_pass(address, name, starts, self.history, more=self.broker.client(scram=True))
        self.done["passes"] += 1

    def close(self) -> None:
        """Wait for all answers, then close."""
        if self._clients is not None:
            *producers, committer = self._clients
            for producer in producers:
                producer.flush()
            for partition in self._partitions:
                committer.fetch(partition)
            committer.close()
            self._clients = None

    def _connect(self) -> tuple[RecordingProducer, RecordingProducer, Committer]:
        address, more, number = self.broker.secure_address, self.broker.client(), next(self._numbers)
        return (
            RecordingProducer(f"i{number}", address, self.history, idempotent=True, more=more),
            RecordingProducer(f"p{number}", address, self.history, idempotent=False, more=more),
            Committer(f"group-{number}", address, self.history, more),
        )


class Bulk(Load):
    """A producer near its quota, on a topic whose old segments are deleted."""

    pace = 0.25

    def __init__(self, broker: SecureBroker) -> None:
        super().__init__(broker)
        config = {"segment.bytes": str(4 << 20), "retention.bytes": str(16 << 20)}
        create_topic(broker.secure_address, BULK, 3, config, broker.client(admin=True))
        self._producer: Producer | None = None
        self._values = [random.randbytes(512) * 2 for _ in range(100)]

    def step(self) -> None:
        """Send 300 records of 1 KiB, of which the quota lets most through."""
        if self._producer is None:
            settings = {
                **self.broker.client(),
                "client.id": BULK,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 2000,
            }
            self._producer = Producer(settings)
        for number in range(300):
            with contextlib.suppress(BufferError):
                self._producer.produce(BULK, self._values[number % 100], on_delivery=self._delivered)
        self._producer.poll(0)

    def close(self) -> None:
        """Wait for all answers, then close."""
        if self._producer is not None:
            self._producer.flush(SECONDS)
            self._producer = None

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        self.done["bulk records"] += error is None
        if error is not None:
            self.failures.append(f"bulk: {error}")


class Reading(Load):
    """A group of two that reads the bulk."""

    pace = 0.0

    def __init__(self, broker: SecureBroker) -> None:
        super().__init__(broker)
        self._consumers: list[Consumer] = []

    def step(self) -> None:
        """Poll each."""
        if not self._consumers:
            settings = {
                **self.broker.client(scram=True),
                "group.id": "reading",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
            }
            self._consumers = [Consumer(settings) for _ in range(2)]
            for consumer in self._consumers:
                consumer.subscribe([BULK])
        for consumer in self._consumers:
            self.done["bulk records read"] += sum(
                message.error() is None for message in consumer.consume(1000, 0.1)
            )

    def close(self) -> None:
        """Leave the group."""
        for consumer in self._consumers:
            consumer.close()
        self._consumers = []


class Transactions(Load):
    """Transactions, one in four of which is aborted."""

    pace = 0.5

    def __init__(self, broker: SecureBroker) -> None:
        super().__init__(broker)
        self._producer: Producer | None = None

    def step(self) -> None:
        """Begin, send and end one."""
        if self._producer is None:
            self._producer = Producer({**self.broker.client(), "transactional.id": "soak"})
            self._producer.init_transactions(SECONDS)
        self._producer.begin_transaction()
        for _ in range(5):
            self._producer.produce(BULK, b"in a transaction")
        self._producer.flush(SECONDS)
        if self.done["transactions"] % 4 == 3:
            self._producer.abort_transaction(SECONDS)
        else:
            self._producer.commit_transaction(SECONDS)
        self.done["transactions"] += 1

    def close(self) -> None:
        """Close the connection."""
        self._producer = None


class Connections(Load):
    """Connections that come and go: most log in, some fail, some are broken off."""

    pace = 0.08
    THREADS: Final = 4
    """Of 12.5 connections a second each."""

    def __init__(self, broker: SecureBroker, certificates: Certificates) -> None:
        super().__init__(broker)
        self._context = trusting(certificates)
        self._kinds = itertools.cycle(["login"] * 7 + ["wrong password", "broken handshake", "nothing sent"])

    def step(self) -> None:
        """Connect once."""
        kind = next(self._kinds)
        with RawClient(self.broker.secure_address) as client:
            if kind == "nothing sent":
                pass
            elif kind == "broken handshake":
                client.send(bytes.fromhex("1603010200"))
            else:
                self._log_in(client, "wrong" if kind == "wrong password" else PASSWORD)
        self.done[f"connections: {kind}"] += 1

    def _log_in(self, client: RawClient, password: str) -> None:
        client.encrypt(self._context)
        if password == PASSWORD:
            client.send(api_versions())
            correlation_ids(client, 1)
        if client.log_in(USER, password) != (password == PASSWORD):
            self.failures.append(f"a login with the password {password!r} had the wrong end")

    def close(self) -> None:
        """Nothing: each step closes its connection."""


class Topics(Load):
    """A topic is created and deleted each second."""

    pace = 1.0

    def __init__(self, broker: SecureBroker) -> None:
        super().__init__(broker)
        self._admin: AdminClient | None = None

    def step(self) -> None:
        """Create one, write to it, and delete it."""
        if self._admin is None:
            self._admin = AdminClient(self.broker.client(admin=True))
        name = f"short-lived-{self.done['topics']}"
        self._admin.create_topics([NewTopic(name, 4, 1)])[name].result(SECONDS)
        self._admin.delete_topics([name])[name].result(SECONDS)
        self.done["topics"] += 1

    def close(self) -> None:
        """Close the connection."""
        self._admin = None


class Groups(Load):
    """Members that come to a few groups, of both protocols, and leave or fall silent."""

    pace = 2.0

    def step(self) -> None:
        """Join, read a little, and leave."""
        number = self.done["members"]
        protocol = ("classic", "consumer")[number % 2]
        settings: dict[str, Any] = {
            **self.broker.client(),
            "group.id": f"churn-{protocol}-{number % 6}",
            "group.protocol": protocol,
            "auto.offset.reset": "latest",
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 3000
        consumer = Consumer(settings)
        consumer.subscribe([BULK])
        deadline = time.monotonic() + SECONDS
        # librdkafka 2.16 closes into a deadlock while it asks for the offset at which it begins.
        while not consumer.consume(100, 1.5) and time.monotonic() < deadline:
            pass
        consumer.close()
        self.done["members"] += 1

    def close(self) -> None:
        """Nothing: each step closes its consumer."""


class Administration(Load):
    """ACLs, quotas and credentials change, and metrics are read."""

    pace = 5.0

    def __init__(self, broker: SecureBroker, certificates: Certificates) -> None:
        super().__init__(broker)
        self._context = trusting(certificates)
        self._admin: AdminClient | None = None
        self.allow_user()
        self.set_quota(QUOTA)

    def step(self) -> None:
        """Change each, and read the metrics."""
        number = self.done["changes"]
        if self._admin is None:
            self._admin = AdminClient(self.broker.client(admin=True))
        acl = allowing(ResourceType.TOPIC, f"nobody-{number % 100}", AclOperation.READ)
        for future in self._admin.create_acls([acl]).values():
            future.result(SECONDS)
        self.set_quota(QUOTA + number % 10)
        self.set_password()
        with urllib.request.urlopen(self.broker.metrics_url, timeout=SECONDS) as answer:
            self.done["bytes of metrics"] = len(answer.read())
        self.done["changes"] += 1

    def allow_user(self) -> None:
        """Let the user do what the loads need."""
        admin = AdminClient(self.broker.client(admin=True))
        acls = [
            allowing(kind, "*", AclOperation.ALL)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        ]
        for future in admin.create_acls(acls).values():
            future.result(SECONDS)
        self._admin = admin
        self.set_password()

    def set_password(self) -> None:
        """Set the password of SCRAM: the same, with another salt."""
        assert self._admin is not None
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        self._admin.alter_user_scram_credentials([change])[USER].result(SECONDS)

    def set_quota(self, rate: int) -> None:
        """Set the quota of the producer of the bulk, for which librdkafka has no call."""
        entity = [EntityData(entity_type="client-id", entity_name=BULK)]
        operation = OpData(key="producer_byte_rate", value=rate, remove=False)
        entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])
        with RawClient(self.broker.secure_address) as client:
            client.encrypt(self._context)
            assert client.log_in(ADMIN, ADMIN_PASSWORD)
            (answer,) = client.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries
            assert answer.error_code == 0

    def close(self) -> None:
        """Close the connection."""
        self._admin = None


def allowing(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """An ACL that allows the user an operation."""
    pattern, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, allow)


def all_loads(broker: SecureBroker, certificates: Certificates, seed: int) -> Iterator[Load]:
    """The loads of a broker that has just started for the first time."""
    yield Administration(broker, certificates)
    yield Records(broker, seed)
    yield Bulk(broker)
    yield Reading(broker)
    yield Transactions(broker)
    yield from (Connections(broker, certificates) for _ in range(Connections.THREADS))
    yield Topics(broker)
    yield Groups(broker)
