"""Metadata: describe the brokers, the topics, and who leads the partitions.

Versions: 0-13.

Behaviour:

- The answer is about the topics named (by name, or by id from v12), about all topics, or about none.
- A topic that does not exist is created with the broker's defaults when both the broker
  (`auto.create.topics.enable`) and the request (v4+) allow it. The controller answers when it exists, where
  Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and leaves it to the client to ask again. Any other
  broker asks the controller, and answers as Apache Kafka does.
- Without creation nothing is waited for.
- A partition without a leader, or whose leader is not alive, is LEADER_NOT_AVAILABLE.
- A partition whose log directory failed has no leader, and has this broker as an offline replica. That is
  how Apache Kafka's controller notes it.
- An answer about many partitions is encoded once for all clients for which it is the same, while the metadata
  stays the same (metadata/encoded_answers.py).

Version notes:

- v0 means all topics by an empty list. From v1 null means all.
- v0 does not name replicas whose brokers the client cannot reach. A partition that has some, and a leader, is
  REPLICA_NOT_AVAILABLE.
- v5 adds offline replicas.
- v6 is the first version that may say LISTENER_NOT_FOUND. Before it, a leader without the client's listener
  is LEADER_NOT_AVAILABLE.
- v7 adds leader epochs.
- v8 adds the authorized operations of topics, and v8-10 have those of the cluster.
- v10 adds topic ids to the answer. v10 and v11 do not take them in requests.
- v12 takes topic ids in requests.
- v13 adds an error code for the complete answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Hashable, Iterable
from functools import partial

from kafkapy.controller.topics import no_quota
from kafkapy.handlers.authorized_operations import NOT_ASKED, cluster_operations
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.offline_replicas import OfflineReplicas
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import VALUES_AT_ONCE, Steps
from kafkapy.metadata.image import Topic
from kafkapy.protocol.codec import encode, holds_more
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import shared_response
from kafkapy.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkapy.protocol.topic_names import is_internal, is_valid
from kafkapy.protocol.types import ZERO_UUID, Part, Uuid
from kafkapy.security.acls.model import Operation, ResourceType

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITH_UNREACHABLE_REPLICAS = 1
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
FIRST_VERSION_BY_TOPIC_ID = 12

MANY_PARTITIONS = 100
"""The topics and partitions above which an answer is encoded once for all clients."""

NAMED_AT_ONCE = 1_000
"""The topics in a request that are looked at without letting others have their turns."""

MOST_NAMES = 20_000
"""The names in a request above which its answer is made for it alone."""

Made = MetadataResponse | list[Part]
AnswerInSteps = Steps[Made | Awaitable[Made]]
Answer = Made | AnswerInSteps | Awaitable[Made]


def handle(context: RequestContext, request: MetadataRequest) -> Answer:
    """Answer about the topics that the client may know."""
    if context.unrestricted:
        return _answer(context, request)
    return _answer_by_rights(context, request)


def _answer(context: RequestContext, request: MetadataRequest) -> Answer:
    version, wanted = context.api_version, request.topics
    image = context.broker.shown_image
    if wanted is None or (version < FIRST_VERSION_WITH_NULL_FOR_ALL and not wanted):
        return _about_existing(context, request, image.topics.values(), is_all=True)
    if len(wanted) > NAMED_AT_ONCE:
        return _about_many(context, request, wanted)
    named = _Named()
    named.add(wanted)
    return _about_named(context, request, wanted, named)


def _about_many(
    context: RequestContext, request: MetadataRequest, wanted: list[MetadataRequestTopic]
) -> AnswerInSteps:
    named = yield from _named(wanted)
    return (yield from _at_once(_about_named(context, request, wanted, named)))


def _named(wanted: list[MetadataRequestTopic]) -> Steps[_Named]:
    named = _Named()
    for start in range(0, len(wanted), NAMED_AT_ONCE):
        yield
        named.add(wanted[start : start + NAMED_AT_ONCE])
    return named


class _Named:
    """The topics that a request names, each once."""

    __slots__ = ("ids", "is_refused", "names")

    def __init__(self) -> None:
        self.ids: dict[Uuid, None] = {}
        self.names: dict[str, None] = {}
        self.is_refused = False
        """Whether there is a topic with neither an id nor a name."""

    def add(self, topics: Iterable[MetadataRequestTopic]) -> None:
        """Add some topics of the request."""
        for topic in topics:
            if topic.topic_id != ZERO_UUID:
                self.ids[topic.topic_id] = None
            elif topic.name is None:
                self.is_refused = True
            else:
                self.names[topic.name] = None


def _about_named(
    context: RequestContext, request: MetadataRequest, wanted: list[MetadataRequestTopic], named: _Named
) -> Answer:
    ids, names = named.ids, named.names
    if named.is_refused or (ids and context.api_version < FIRST_VERSION_BY_TOPIC_ID):
        return _Answer(context, request).refusing(wanted)
    image = context.broker.shown_image
    if ids:  # all others are left out
        if len(ids) <= MOST_NAMES and ids.keys() <= image.topics_by_id.keys():
            return _about_existing(context, request, [image.topics_by_id[each] for each in ids])
        return _Answer(context, request).about_ids(ids)
    if len(names) <= MOST_NAMES and names.keys() <= image.topics.keys():
        return _about_existing(context, request, [image.topics[each] for each in names])
    may_create = request.allow_auto_topic_creation and context.broker.config["auto.create.topics.enable"]
    if may_create and not names.keys() <= image.topics.keys():
        return _create(context, request, names)
    return _Answer(context, request).about(names, {})


def _answer_by_rights(context: RequestContext, request: MetadataRequest) -> AnswerInSteps:
    """Answer about the topics that the client may describe, and refuse all others."""
    wanted, image = request.topics, context.broker.shown_image

    def may_describe(name: str, *, log_if_denied: bool = True) -> bool:
        return context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=log_if_denied)

    if wanted is None or (context.api_version < FIRST_VERSION_WITH_NULL_FOR_ALL and not wanted):
        shown = yield from answer_each(
            tuple(image.topics.values()),
            lambda topic: topic if may_describe(topic.name, log_if_denied=False) else None,
        )
        is_all = len(shown) == len(image.topics)
        return (yield from _at_once(_about_existing(context, request, shown, is_all=is_all)))
    by_id = any(topic.topic_id != ZERO_UUID for topic in wanted)
    if by_id and context.api_version < FIRST_VERSION_BY_TOPIC_ID:
        return (yield from _Answer(context, request).refusing(wanted))
    may_create_all = context.may_on_cluster(Operation.CREATE, log_if_denied=False)
    creates = request.allow_auto_topic_creation and context.broker.config["auto.create.topics.enable"]
    hidden: dict[str | Uuid, MetadataResponseTopic] = {}

    def is_allowed(asked: MetadataRequestTopic) -> MetadataRequestTopic | None:
        key: str | Uuid
        if by_id:
            key, topic = asked.topic_id, image.topics_by_id.get(asked.topic_id)
            if topic is None or may_describe(topic.name):
                return asked  # an id that does not exist is no secret
            hidden[key] = MetadataResponseTopic(name=None, topic_id=asked.topic_id)
        else:
            key = name = asked.name or ""
            if asked.name is None:
                return asked
            if may_describe(name):
                if name in image.topics or not creates or may_create_all:
                    return asked
                if context.may(Operation.CREATE, ResourceType.TOPIC, name):
                    return asked
                hidden[key] = MetadataResponseTopic(name=name, is_internal=is_internal(name))
            else:
                hidden[key] = MetadataResponseTopic(name=name)
        hidden[key].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None

    allowed = yield from answer_each(wanted, is_allowed)
    if not hidden:
        return (yield from _at_once(_answer(context, request)))
    answer, named = _Answer(context, request), (yield from _named(allowed))
    if named.is_refused:
        return (yield from answer.refusing(wanted))
    if by_id:
        response = yield from answer.about_ids(named.ids)
    else:
        names = named.names
        if creates and not names.keys() <= image.topics.keys():
            return _create(context, request, names, hidden.values())
        response = yield from answer.about(names, {})
    response.topics += hidden.values()
    return response


def _at_once(answer: Answer) -> AnswerInSteps:
    """The answer, after its steps if it has any."""
    if isinstance(answer, Generator):
        return (yield from answer)
    return answer


def _about_existing(
    context: RequestContext, request: MetadataRequest, topics: Collection[Topic], *, is_all: bool = False
) -> Answer:
    """Answer about topics that exist; the answer may be encoded already."""
    answer = _Answer(context, request)
    has_operations = (
        request.include_topic_authorized_operations or request.include_cluster_authorized_operations
    )
    is_own = has_operations and not context.unrestricted
    if context.broker.replicas.any_offline or not _are_many(topics) or is_own:
        return answer.about_existing(topics)
    encoded, image = context.broker.encoded_metadata, context.broker.shown_image
    encoded.follow(image, context.broker.offline_replicas)
    key = (
        context.api_version,
        tuple(context.nodes()),
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
        None if is_all else tuple(topic.name for topic in topics),
    )
    body = encoded.get(key)
    if body is not None:
        return shared_response(context.api_key, context.api_version, context.correlation_id, body)
    names = 0 if is_all else len(topics)
    return _made(context, key, names, partial(_encode, context, answer, topics))


def _are_many(topics: Iterable[Topic]) -> bool:
    """Whether there are more than MANY_PARTITIONS topics and partitions."""
    left = MANY_PARTITIONS
    for topic in topics:
        left -= len(topic.partitions) + 1
        if left < 0:
            return True
    return False


async def _encode(context: RequestContext, answer: _Answer, topics: Iterable[Topic]) -> bytes:
    response = await context.broker.turns.finish(answer.about_existing(topics))
    if not holds_more(response, VALUES_AT_ONCE):
        return encode(response, context.api_version)
    return await context.broker.validation.run(
        context.connection, partial(encode, response, context.api_version)
    )


async def _made(
    context: RequestContext, key: Hashable, names: int, make: Callable[[], Awaitable[bytes]]
) -> list[Part]:
    body = await context.broker.encoded_metadata.make(key, names, make)
    return shared_response(context.api_key, context.api_version, context.correlation_id, body)


async def _create(
    context: RequestContext,
    request: MetadataRequest,
    names: Collection[str],
    hidden: Iterable[MetadataResponseTopic] = (),
) -> MetadataResponse:
    """Create what is missing, then answer; `hidden` are the answers about other topics."""
    turns = context.broker.turns
    missing = await turns.finish(_missing(context, names))
    results = await _create_missing(context, missing) if missing else {}
    errors = {name: _shown(error) for name, error in results.items() if isinstance(error, KafkaError)}
    response = await turns.finish(_Answer(context, request).about(names, errors))
    response.topics += hidden
    return response


async def _create_missing(context: RequestContext, missing: Collection[str]) -> dict[str, Topic | KafkaError]:
    quota = context.mutation_quota(first_strict_version=0)
    take = no_quota if quota is None else quota.take
    return await context.broker.automatic_topics.create(missing, take)


def _shown(error: KafkaError) -> ErrorCode:
    """The error of a topic that is not created; after one that it knows, a client asks again."""
    throttled = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if throttled else error.code


def _missing(context: RequestContext, names: Collection[str]) -> Steps[list[str]]:
    topics = context.broker.shown_image.topics
    return answer_each(names, lambda name: name if name not in topics and is_valid(name) else None)


class _Answer:
    """Builds the response to one request from one image."""

    def __init__(self, context: RequestContext, request: MetadataRequest) -> None:
        self._image = context.broker.shown_image
        self._nodes = {node.id: node for node in context.nodes()}
        self._offline = OfflineReplicas(context, self._nodes)
        self._node_id = context.broker.node_id
        self._version = context.api_version
        self._context = context
        self._cluster_operations = (
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        )
        self._has_operations = request.include_topic_authorized_operations
        self._no_listener = (
            ErrorCode.LISTENER_NOT_FOUND
            if self._version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
            else ErrorCode.LEADER_NOT_AVAILABLE
        )

    def about_existing(self, wanted: Iterable[Topic]) -> Steps[MetadataResponse]:
        topics = []
        for topic in wanted:
            described = yield from self._topic(topic)
            topics.append(described)
        return self._response(topics)

    def about_ids(self, ids: Collection[Uuid]) -> Steps[MetadataResponse]:
        def about(topic_id: Uuid) -> Steps[MetadataResponseTopic]:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                return (yield from self._topic(topic))
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)

        return self._response((yield from answer_in_steps(ids, about)))

    def about(self, names: Collection[str], errors: dict[str, ErrorCode]) -> Steps[MetadataResponse]:
        """Answer about topics by name; `errors` says why some could not be created."""

        def about(name: str) -> Steps[MetadataResponseTopic]:
            topic = self._image.topics.get(name)
            if topic is not None:
                return (yield from self._topic(topic))
            error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return MetadataResponseTopic(
                error_code=error if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
                name=name,
                is_internal=is_internal(name),
                topic_authorized_operations=self._operations(name),
            )

        return self._response((yield from answer_in_steps(names, about)))

    def refusing(self, wanted: Collection[MetadataRequestTopic]) -> Steps[MetadataResponse]:
        """Answer to a topic without name and id, or to ids in a version that does not take them."""
        topics = yield from answer_each(
            wanted,
            lambda topic: MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            ),
        )
        return MetadataResponse(topics=topics)

    def _response(self, topics: list[MetadataResponseTopic]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in self._nodes.values()
            ],
            cluster_id=self._image.cluster_id,
            controller_id=self._image.controller_id,
            topics=topics,
            cluster_authorized_operations=self._cluster_operations,
        )

    def _operations(self, topic: str) -> int:
        """The operations that the client may do on a topic, if it asks."""
        if not self._has_operations:
            return NOT_ASKED
        return self._context.operations_on(ResourceType.TOPIC, topic)

    def _topic(self, topic: Topic) -> Steps[MetadataResponseTopic]:
        partitions = yield from self._partitions(topic)
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=partitions,
            topic_authorized_operations=self._operations(topic.name),
        )

    def _partitions(self, topic: Topic) -> Steps[list[MetadataResponsePartition]]:
        # The loop is written out: clients ask for a topic or two when they start, and wait for the answer.
        nodes, brokers = self._nodes, self._image.brokers
        partitions = []
        for index, state in enumerate(topic.partitions):
            yield
            if not state.exists:
                continue
            leader, error = state.leader, ErrorCode.NONE
            if leader not in nodes:
                error = self._no_listener if leader in brokers else ErrorCode.LEADER_NOT_AVAILABLE
                leader = -1
            offline = self._offline.of(topic.name, index, state.replicas)
            if leader == self._node_id and leader in offline:
                leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE
            replicas, isr = list(state.replicas), list(state.isr)
            if self._version < FIRST_VERSION_WITH_UNREACHABLE_REPLICAS:
                replicas, isr = [[each for each in ids if each in nodes] for ids in (replicas, isr)]
                missing = len(replicas) < len(state.replicas) or len(isr) < len(state.isr)
                if missing and error is ErrorCode.NONE:
                    error = ErrorCode.REPLICA_NOT_AVAILABLE
            partitions.append(
                MetadataResponsePartition(
                    error_code=error,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=replicas,
                    isr_nodes=isr,
                    offline_replicas=offline,
                )
            )
        return partitions
