"""A broker with only its metadata and administration, and what handlers need of partitions.

`ask` takes a request through the codec in its version, both ways, so that a test sees what a client would.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import GeneratorType, SimpleNamespace
from typing import Any, cast

from kafkapy import handlers
from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Turns
from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.encoded_answers import EncodedAnswers
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.codec import decode, encode
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader, decode_response
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.types import TopicPartition
from kafkapy.quotas.managers import QuotaManagers
from kafkapy.security.acls.audit_log import AuditLog
from kafkapy.security.acls.loading import load_authorizer
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.log_config import LogConfig

NODE_ID = 1


@dataclass
class FakeLog:
    log_directory: Any
    config: LogConfig
    size: int = 0


@dataclass
class FakePartition:
    topic_partition: TopicPartition
    log: FakeLog
    high_watermark: int = 10
    start: int = 0

    @property
    def low_watermark(self) -> int:
        """There is no other replica."""
        return self.start

    def delete_records(self, offset: int) -> int:
        if not -1 <= offset <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        asked = self.high_watermark if offset == -1 else offset
        self.start = max(self.start, asked)
        return asked


@dataclass
class FakeReplicas:
    """Stands for the replica manager: it has each partition of the image in `log_dir`."""

    log_dir: Any
    partitions: dict[tuple[str, int], FakePartition] = field(default_factory=dict)
    offline: set[tuple[str, int]] = field(default_factory=set)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        self.partitions.clear()
        for topic in new.topics.values():
            for index in range(len(topic.partitions)):
                key = TopicPartition(topic.name, index)
                log = FakeLog(self.log_dir, LogConfig.from_mapping(topic.configs))
                self.partitions[key] = FakePartition(key, log)

    @property
    def any_offline(self) -> bool:
        return bool(self.offline)

    def is_offline(self, topic: str, index: int) -> bool:
        return (topic, index) in self.offline

    def __iter__(self) -> Iterator[FakePartition]:
        return iter(self.partitions.values())

    def partition(self, topic: str, index: int) -> FakePartition:
        try:
            return self.partitions[topic, index]
        except KeyError:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None


class FakeLogStarts:
    """Stands for the checkpoints: every log start offset is on disk."""

    async def save(self, logs: Iterable[FakeLog]) -> None: ...

    def is_saved(self, log: FakeLog) -> bool:
        return True


class AdminWorld:
    """What handlers find in `context`."""

    def __init__(self, path: Path, settings: dict[str, str], host: str) -> None:
        self.path = path
        self.host = host
        self.metadata = MetadataCache()
        self.config = BrokerConfig(settings)
        self.authorizer = load_authorizer(settings)
        self.audit_log = AuditLog(lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call))
        self.encoded_metadata = EncodedAnswers()
        self.node_id = NODE_ID
        self.clustered = False
        self.telemetry = None
        self.quotas: QuotaManagers | None = None
        self.offline_replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self.new_topics: list[Topic] = []
        """Those of which only the controller has told."""
        self.log_dir = SimpleNamespace(path=str(path), error=None, files=FileSystem())
        self.replicas = FakeReplicas(self.log_dir)
        self.logs = SimpleNamespace(directories=[self.log_dir], logs={}, moves=SimpleNamespace(copies={}))
        self.log_starts = FakeLogStarts()
        self.connection: Any = SimpleNamespace(
            listener=SimpleNamespace(name="PLAINTEXT"),
            local_host="10.1.2.3",
            peer_host="10.1.2.4",
            principal="User:ANONYMOUS",
            is_this_broker=False,
            charge=lambda values: True,
        )

    async def start(self) -> None:
        self.turns = Turns(asyncio.get_running_loop())
        self.store = await EmbeddedStore.open(self.path / "metadata.db", sync=False)
        changes = TreeChanges(self.store)
        await changes.watch()
        image = await open_cluster(self.store, "kafkapy-tests-clusterX")
        self.metadata.follow(self.replicas.apply)
        self.admin = ClusterAdmin(
            self.store,
            self.metadata,
            self.config,
            changes,
            node_id=NODE_ID,
            clock=Clock(),
            authorizer=self.authorizer,
        )
        self.automatic_topics = AutomaticTopics(
            self.admin.topics, self.metadata, self.config, node_id=NODE_ID, clock=Clock()
        )
        await self.admin.start(image, [Endpoint("PLAINTEXT", self.host, 9092, "PLAINTEXT")])

    async def blocking(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def measure_requests(self) -> None:
        """There are no connections."""

    @property
    def shown_image(self) -> MetadataImage:
        return self.metadata.image.with_topics(self.new_topics)

    async def ask(self, request: TopMessage, version: int) -> Any:
        """The response to `request`, as a client of this version reads it."""
        assert request.KEY is not None
        endpoint = handlers.endpoint(request.KEY)
        assert endpoint.api.min_version <= version <= endpoint.api.max_version
        received = decode(type(request), encode(request, version), version)
        header = RequestHeader(request.KEY, version, 7, "tests")
        context = RequestContext(cast("Any", self), self.connection, request.KEY, version, 7, "tests", header)
        response = endpoint.handle(context, received)
        if isinstance(response, GeneratorType):
            response = await self.turns.finish(response)
        if inspect.isawaitable(response):
            response = await response
        if isinstance(response, list):  # it is encoded already
            return decode_response(request.KEY, version, b"".join(response)[4:])[1]
        assert type(response) is endpoint.response_class
        return decode(type(response), encode(response, version), version)
