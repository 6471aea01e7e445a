"""Creates topics on demand: those that clients or streams groups need, and internal ones.

Without a cluster, this broker is the controller, and creates the topic before it answers. In a cluster the
controller does the same, but a partition has a leader only later. Any other broker asks the controller, and
does not wait for it: its client asks again, until the topic is in the metadata. There is at most one request
for a name at a time, however often clients ask.

In a cluster an internal topic gets the replication factor of its setting. If there are fewer brokers, its
creation fails until there are enough, so that it never has fewer replicas than wanted. Without a cluster it
gets as many replicas as there are brokers.

Source: Apache Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.streams_topics import StreamsTopics
from kafkapy.controller.topic_plans import DEFAULT, NewTopic, automatic_topic
from kafkapy.controller.topics import TakePartitions, TopicAdmin, no_quota
from kafkapy.inter_broker.peers import PeerError
from kafkapy.logs.text import listed
from kafkapy.loop.clock import Clock
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

LEADERS_SECONDS: Final = 1.0
"""How long the controller waits for the leaders of a new topic, before the client has to ask again."""

_EXISTING: Final = frozenset({ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT})
"""The errors of a topic that exists, though its leaders may not know it yet."""

logger = logging.getLogger(__name__)


class AskController(Protocol):
    """Asks the controller (`kafkapy.controller.controller_link.ControllerLink.ask`)."""

    async def __call__(self, request: Any, *, seconds: float) -> Any:
        """Send a request, and return the answer.

        Raises PeerError or KafkaError if there is none within `seconds`.
        """


class AutomaticTopics:
    """Creates topics on demand."""

    def __init__(
        self,
        topics: TopicAdmin,
        cache: MetadataCache,
        config: BrokerConfig,
        *,
        node_id: int,
        clock: Clock,
        ask_controller: AskController | None = None,
    ) -> None:
        """`ask_controller` is None without a cluster."""
        self.streams = StreamsTopics(self._create_once, clock)
        self._topics = topics
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._ask_controller = ask_controller
        self._in_flight: set[str] = set()
        """The names of the topics that are being created."""
        self._asking: set[asyncio.Task[Any]] = set()
        self._refusal = ""
        """The last refusal in the log, which is not repeated: clients ask again and again."""

    async def create(
        self, names: Collection[str], take: TakePartitions = no_quota
    ) -> dict[str, Topic | KafkaError]:
        """The topics of these valid names, or their errors.

        The partitions are taken from a client's quota with `take`, unless another broker is the controller.

        A missing topic is created with this broker's defaults. Its error is UNKNOWN_TOPIC_OR_PARTITION while
        it is being created elsewhere.
        """
        if self._ask_controller is None:
            return await self._topics.auto_create(names, take)
        topics = self._cache.image.topics
        missing = [name for name in names if name not in topics and name not in self._in_flight]
        refused: dict[str, KafkaError] = {}
        if missing:
            self._in_flight.update(missing)
            wanted = [automatic_topic(name, self._config) for name in missing]
            if self._is_controller:
                refused = await self._create_here(wanted, take)
            else:
                task = asyncio.create_task(self._ask(self._ask_controller, wanted))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
        topics = self._cache.image.topics
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {name: topics.get(name) or refused.get(name, unknown) for name in names}

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic `name`, created if it is missing.

        Raises:
            KafkaError: it does not exist, or not yet.
        """
        topic = (await self.create([name]))[name]
        if isinstance(topic, KafkaError):
            raise topic
        return topic

    async def _create_once(self, wanted: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        """Create topics that nobody is creating yet; return the errors of those that are refused."""
        topics = self._cache.image.topics
        missing = [new for new in wanted if new.name not in topics and new.name not in self._in_flight]
        if not missing:
            return {}
        self._in_flight.update(new.name for new in missing)
        if self._ask_controller is None or self._is_controller:
            return await self._create_here(missing)
        return await self._ask(self._ask_controller, missing)

    async def stop(self) -> None:
        """Wait for the controller no longer."""
        await self.streams.stop()
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking)

    @property
    def _is_controller(self) -> bool:
        return self._cache.image.controller_id == self._node_id

    async def _create_here(
        self, wanted: Sequence[NewTopic], take: TakePartitions = no_quota
    ) -> dict[str, KafkaError]:
        """Create topics as the controller; return the errors of those that it refuses."""
        try:
            results = await self._topics.create_topics(wanted, seconds=LEADERS_SECONDS, take=take)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:  # another broker has just become the controller
                return {}
            results = dict.fromkeys((new.name for new in wanted), error)
        finally:
            self._in_flight.difference_update(new.name for new in wanted)
        refused = {name: error for name, error in results.items() if isinstance(error, KafkaError)}
        self._log_refusals(refused)
        return {name: _shown(error) for name, error in refused.items()}

    async def _ask(
        self, ask_controller: AskController, wanted: Sequence[NewTopic]
    ) -> Mapping[str, KafkaError]:
        """Let the controller create topics; return the errors of those that it refuses."""
        if self._is_controller:  # since a moment ago
            return await self._create_here(wanted)
        timeout_ms = self._config["request.timeout.ms"]
        request = CreateTopicsRequest(topics=[self._creatable(new) for new in wanted], timeout_ms=timeout_ms)
        try:
            response = await ask_controller(request, seconds=timeout_ms / 1000)
            return self._report(response)
        except (PeerError, KafkaError) as error:
            logger.info("The controller has not answered whether it creates topics: %s", error)
        except Exception:
            logger.exception("The controller could not be asked to create topics")
        finally:
            self._in_flight.difference_update(new.name for new in wanted)
        return {}

    def _creatable(self, new: NewTopic) -> CreatableTopic:
        """The topic in a request, with this broker's defaults and not the controller's."""
        config = self._config
        return CreatableTopic(
            name=new.name,
            num_partitions=config["num.partitions"] if new.num_partitions == DEFAULT else new.num_partitions,
            replication_factor=(
                config["default.replication.factor"]
                if new.replication_factor == DEFAULT
                else new.replication_factor
            ),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in new.configs.items()],
        )

    def _report(self, response: CreateTopicsResponse) -> Mapping[str, KafkaError]:
        made = [result.name for result in response.topics if result.error_code == ErrorCode.NONE]
        if made:
            logger.info("The controller has created these topics, which clients asked for: %s", listed(made))
        refused = {
            result.name: KafkaError(ErrorCode(result.error_code), result.error_message or "")
            for result in response.topics
            if result.error_code != ErrorCode.NONE
        }
        self._log_refusals(refused)
        return refused

    def _log_refusals(self, refused: Mapping[str, KafkaError]) -> None:
        """Say which topics cannot be created, and why: clients ask again and again, and wait."""
        shown = [f"{name} ({error})" for name, error in refused.items() if error.code not in _EXISTING]
        refusal = listed(shown)
        if shown and refusal != self._refusal:
            self._refusal = refusal
            logger.warning("Topics that clients ask for cannot be created: %s", refusal)


def _shown(error: KafkaError) -> KafkaError:
    """The error that a client gets: a topic that exists by now has no leader yet."""
    if error.code in _EXISTING:
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    return error
