"""Topic administration: creation, deletion, more partitions, and automatic creation.

A creation is one transaction (`/brokers/topics/<t>`, its partitions and their states, `/config/topics/<t>`).
Then the image is published, which creates the logs. After a crash in between, the next start creates the
logs. The groups of topics of one request are committed concurrently, and published in order.

A deletion first marks the topic (`/admin/delete_topics/<t>`), then publishes an image without it, which
removes the logs, and then deletes the nodes. After a crash in between, the next start continues the deletion,
so that no log is left without a topic.

Others may write the tree too. If somebody has written only the node of a topic, the topic gets its id,
partitions and leaders. If somebody has marked a topic, it is deleted.

In a cluster, the brokers make and delete logs when the controller tells them (controller.py). A creation is
answered when the leaders know that they lead, and a deletion when the live brokers have deleted the logs. A
large topic takes several transactions there; if they are interrupted, the controller adds what is missing. A
broker alone has no controller to ask, because that costs more (replicas/sole_roles.py has the figures).

Source: Kafka's ReplicationControlManager (checks and messages), TopicDeletionManager, KafkaController (what
changes in the tree).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog, adopt_logs
from kafkapy.controller.expectations import Expectation
from kafkapy.controller.topic_nodes import DELETED_AT_ONCE, delete_topic_nodes, new_partitions, topic_data
from kafkapy.controller.topic_plans import MorePartitions, NewTopic, TopicPlanner
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_NODE, Topic
from kafkapy.metadata.store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import GAP, DamagedNodeError, LeaderAndIsr
from kafkapy.policies.calls import PolicyCalls
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.topic_names import collision_key
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid

if TYPE_CHECKING:
    from kafkapy.controller.controller import Controller

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 30.0
"""How long a change of topics waits for the brokers, if nobody says how long."""


TakePartitions = Callable[[int], None]
"""Takes so many partitions from the quota of a client (KIP-599); raises KafkaError if it is exceeded."""


def no_quota(partitions: int) -> None:
    """Allow any number of partitions."""


class TopicAdmin:
    """Creates and deletes topics, and adds partitions.

    Each topic of a request has its own result.
    """

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        config: BrokerConfig,
        chance: random.Random | None = None,
        *,
        controller: Controller | None = None,
        policy: PolicyCalls | None = None,
    ) -> None:
        """`controller` is that of a cluster; None if this broker is the only one.

        `policy` decides which topics may be created.
        """
        self._writer = writer
        self._policy = policy
        self._controller = controller
        self._store = store
        self._planner = TopicPlanner(config, chance or random.Random())

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows; no other one changes topics."""
        return self._writer.is_controller

    # --- creation -----------------------------------------------------------------------------------------

    async def create_topics(
        self,
        wanted: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        seconds: float = WAIT_SECONDS,
        take: TakePartitions = no_quota,
    ) -> dict[str, Topic | KafkaError]:
        """Create topics, whose names differ; return each topic or its error.

        With `validate_only`, nothing is created, though the partitions are taken from the client's quota with
        `take`, as in Apache Kafka. `seconds` is how long to wait for the leaders: a topic whose
        leaders have not answered by then is REQUEST_TIMED_OUT, though it is created.

        Raises:
            KafkaError: NOT_CONTROLLER; or POLICY_VIOLATION, the request has too many partitions.
        """
        self._require_controller()
        groups = self._planner.in_groups(wanted)
        results: dict[str, Topic | KafkaError] = {}
        if self._policy is not None:
            allowed = await self._allowed(self._policy, groups, results)
            groups = self._planner.in_groups(allowed)
        collisions: dict[str, str] = {}
        async with self._writer.turn:
            self._require_controller()
            overtaken: list[list[NewTopic]] = []
            async with asyncio.TaskGroup() as commits:
                committing = []
                for group in groups:
                    planned = _within_quota(self._plan(group, collisions, results), take, results)
                    results.update((topic.name, topic) for topic in planned)
                    if planned and not validate_only:
                        # The groups are committed concurrently, to share the store's next sync.
                        committing.append((group, planned, commits.create_task(self._commit(planned))))
                    await asyncio.sleep(0)  # let other requests run
                for group, planned, commit in committing:
                    refused = await commit
                    if refused is None:
                        await self._writer.publish_new(self._writer.image.with_topics(planned))
                    elif isinstance(refused, KafkaError):
                        results.update((topic.name, refused) for topic in planned)
                    else:
                        names = {topic.name for topic in planned}
                        overtaken.append([new for new in group if new.name in names])
                    await asyncio.sleep(0)
            for group in overtaken:
                await self._create_overtaken(group, results)
            if self._controller is None or validate_only:
                return results
            created = [topic for topic in results.values() if isinstance(topic, Topic)]
            expected = self._controller.expect_led(created)
            await self._act()
        missing = {partition.topic for partition in await self._controller.led(expected, seconds)}
        timed_out = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The leaders have not answered in time.")
        return results | dict.fromkeys(missing, timed_out)

    async def _allowed(
        self,
        policy: PolicyCalls,
        groups: Sequence[Sequence[NewTopic]],
        results: dict[str, Topic | KafkaError],
    ) -> list[NewTopic]:
        """The valid topics that the policy allows; the errors of others go to `results`.

        The caller does not hold the turn: a policy may take long.
        """
        asked: list[NewTopic] = []
        collisions: dict[str, str] = {}
        for group in groups:
            valid = {topic.name for topic in self._plan(group, collisions, results)}
            asked += [new for new in group if new.name in valid]
            await asyncio.sleep(0)  # let other requests run
        refusals = await policy.refusals([self._planner.for_policy(new) for new in asked])
        allowed = []
        for new, refusal in zip(asked, refusals, strict=True):
            if refusal is None:
                allowed.append(new)
            else:
                results[new.name] = refusal
        return allowed

    def _require_controller(self) -> None:
        """Raise KafkaError NOT_CONTROLLER unless this broker can change topics."""
        if self._controller is None:
            self._writer.require_controller()
        else:
            self._controller.require()

    def _live(self) -> Collection[int]:
        """The brokers whose new replicas are in sync from the start."""
        return self._writer.image.brokers if self._controller is None else self._controller.live()

    async def _act(self) -> None:
        """Let the controller tell the brokers of new partitions."""
        assert self._controller is not None
        try:
            await self._controller.act()
        except (KafkaError, MetadataStoreError) as error:
            logger.error("the brokers do not know of new partitions yet: %s; the broker tries again", error)

    async def _write(self, operations: Sequence[Operation]) -> None:
        """Commit operations; for a large topic of a cluster in parts.

        Raises as `commit`.
        """
        if self._controller is None:
            await self._writer.commit(operations)
        else:
            await self._writer.commit_in_parts(operations)

    async def _create_overtaken(
        self, wanted: Sequence[NewTopic], results: dict[str, Topic | KafkaError]
    ) -> None:
        """Create topics after others have created some of them, or of their nodes."""

        async def attempt() -> None:
            await self._writer.catch_up()
            free, config_versions = [], {}
            for new in wanted:
                version, config_versions[new.name] = await self._versions(new.name)
                if version == NO_NODE or new.name in self._writer.image.topics:
                    free.append(new)
                else:  # the topic has no id yet, or is about to be deleted
                    marked = await self._store.exists(znodes.delete_topic_path(new.name))
                    why = "already exists" if marked is None else "is marked for deletion"
                    message = f"Topic '{new.name}' {why}."
                    results[new.name] = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message)
            planned = [
                replace(topic, config_version=config_versions[topic.name] + 1)
                for topic in self._plan(free, {}, results)
            ]
            refused = await self._commit(planned)
            if refused is not None:
                raise refused
            await self._writer.publish_new(self._writer.image.with_topics(planned))
            results.update((topic.name, topic) for topic in planned)

        try:
            await self._writer.until_current(attempt)
        except KafkaError as error:
            for new in wanted:
                if not isinstance(results[new.name], KafkaError):
                    results[new.name] = error

    async def _versions(self, name: str) -> tuple[int, int]:
        """The versions of a topic's node and of its settings' node, or NO_NODE."""
        paths = (znodes.topic_path(name), znodes.topic_config_path(name))
        topic, config = [await self._store.exists(path) for path in paths]
        return NO_NODE if topic is None else topic.version, NO_NODE if config is None else config.version

    def _plan(
        self,
        wanted: Sequence[NewTopic],
        collisions: dict[str, str],
        results: dict[str, Topic | KafkaError],
    ) -> list[Topic]:
        """The topics that `wanted` describe; the errors of refused ones go to `results`."""
        image, epoch, live = self._writer.image, self._writer.controller_epoch, self._live()
        planned = []
        for new in wanted:
            try:
                topic = self._planner.new_topic(new, image, collisions, epoch, live)
            except KafkaError as error:
                results[new.name] = error
                continue
            key = collision_key(topic.name)
            if key is not None:
                collisions[key] = topic.name
            planned.append(topic)
        return planned

    async def auto_create(
        self, names: Collection[str], take: TakePartitions = no_quota
    ) -> dict[str, Topic | KafkaError]:
        """The topics of these names, or their errors.

        Missing topics are created with the broker's defaults. `take` is that of `create_topics`.
        """
        missing = [name for name in names if name not in self._writer.image.topics]
        results: dict[str, Topic | KafkaError] = {}
        if missing:
            try:
                image = self._writer.image
                wanted = [self._planner.automatic(name, image) for name in missing]
                results = await self.create_topics(wanted, take=take)
            except KafkaError as error:
                results = dict.fromkeys(missing, error)
        # A topic that another client has created meanwhile counts, whatever the result of this attempt.
        return {name: self._writer.image.topics.get(name) or results[name] for name in names}

    async def _commit(self, topics: Sequence[Topic]) -> KafkaError | NodeError | None:
        """Write new topics; return the error if there is one.

        NodeError: others have created one of the nodes.
        """
        operations: list[Operation] = []
        for topic in topics:
            path, data = znodes.topic_config_path(topic.name), znodes.encode_config(topic.configs)
            # If somebody has deleted a topic's node by hand, the node of its settings may be left.
            left = topic.config_version > 0
            operations.append(SetData(path, data, topic.config_version - 1) if left else Create(path, data))
            operations.append(Create(znodes.topic_path(topic.name), topic_data(topic)))
            operations.append(Create(znodes.partitions_path(topic.name)))
            operations += new_partitions(topic, 0)
        try:
            await self._write(operations)
        except (KafkaError, NodeError) as error:
            return error
        return None

    async def adopt(self, found: Mapping[TopicPartition, FoundLog], node_id: int) -> None:
        """Create topics for logs that a new tree does not know.

        Raises:
            KafkaError, NodeError: they cannot be created.
        """
        async with self._writer.turn:
            topics = adopt_logs(found, node_id, self._planner, self._writer.image)
            if topics:
                refused = await self._commit(topics)
                if refused is not None:
                    raise refused
                await self._writer.publish_new(self._writer.image.with_topics(topics))

    # --- more partitions ----------------------------------------------------------------------------------

    async def create_partitions(
        self,
        wanted: Sequence[MorePartitions],
        *,
        validate_only: bool = False,
        seconds: float = WAIT_SECONDS,
        take: TakePartitions = no_quota,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics, whose names differ; return the error of each, or None.

        `seconds` and `take` are those of `create_topics`.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        results: dict[str, KafkaError | None] = {}
        expected: list[Expectation[TopicPartition]] = []
        taken: set[str] = set()
        async with self._writer.turn:
            self._require_controller()
            for more in wanted:

                async def grow(more: MorePartitions = more) -> None:
                    image, epoch = self._writer.image, self._writer.controller_epoch
                    topic = self._planner.grown_topic(more, image, epoch, self._live())
                    if more.topic not in taken:  # this may be a second attempt
                        take(len(topic.partitions) - len(image.topics[topic.name].partitions))
                        taken.add(more.topic)
                    if not validate_only:
                        await self._commit_more(topic)
                        if self._controller is not None:
                            first = len(image.topics[topic.name].partitions)
                            expected.append(self._controller.expect_led([topic], first))

                try:
                    await self._writer.until_current(grow)
                    results[more.topic] = None
                except KafkaError as error:
                    results[more.topic] = error
                await asyncio.sleep(0)  # let other requests run
            if self._controller is None or not expected:
                return results
            await self._act()
        until = asyncio.get_running_loop().time() + seconds
        for expectation in expected:
            left = until - asyncio.get_running_loop().time()
            for partition in await self._controller.led(expectation, left):
                results[partition.topic] = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "The leaders have not answered in time."
                )
        return results

    async def _commit_more(self, topic: Topic) -> None:
        present = len(self._writer.image.topics[topic.name].partitions)
        await self._write(
            [
                SetData(znodes.topic_path(topic.name), topic_data(topic), topic.version - 1),
                *new_partitions(topic, present),
            ]
        )
        await self._writer.publish_new(self._writer.image.with_topics([topic]))

    # --- deletion -----------------------------------------------------------------------------------------

    async def delete_topics(
        self,
        topic_ids: Collection[Uuid],
        *,
        seconds: float = WAIT_SECONDS,
        take: TakePartitions = no_quota,
    ) -> dict[Uuid, KafkaError | None]:
        """Delete topics by id; return the error of each, or None.

        The partitions of each topic are taken from the client's quota with `take`.
        `seconds` is how long to wait for the brokers of a cluster. A broker that is down is not waited for,
        and deletes its replicas when it is back.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        results: dict[Uuid, KafkaError | None] = {}
        marked: list[Topic] = []
        async with self._writer.turn:
            self._require_controller()
            rest = iter(topic_ids)
            while some := list(islice(rest, DELETED_AT_ONCE)):
                topics = await self._mark(self._within_quota(some, take, results), results)
                try:
                    if self._controller is None:
                        await self._delete_marked(topics)
                    else:
                        marked += topics
                        await self._controller.delete_topics(topics)
                except KafkaError as error:
                    results.update((topic.id, error) for topic in topics)
            if self._controller is None:
                return results
            expected = self._controller.term.deletions.expect(marked)
        await self._controller.term.deletions.wait(expected, seconds)
        return results

    def _within_quota(
        self, topic_ids: Sequence[Uuid], take: TakePartitions, results: dict[Uuid, KafkaError | None]
    ) -> list[Uuid]:
        """The topics that the client's quota allows to delete; errors go to `results`."""
        allowed = []
        for topic_id in topic_ids:
            topic = self._writer.image.topics_by_id.get(topic_id)
            try:
                if topic is not None:
                    take(len(topic.partitions))
                allowed.append(topic_id)
            except KafkaError as error:
                results[topic_id] = error
        return allowed

    async def delete_marked_topics(self) -> None:
        """Delete topics that are marked for deletion.

        Others have marked them, or a stop interrupted their deletion. The caller holds the turn.

        Raises:
            KafkaError, MetadataStoreError: some could not be deleted.
        """
        names = iter(await self._store.children(znodes.DELETE_TOPICS))
        while some := list(islice(names, DELETED_AT_ONCE)):
            topics = self._writer.image.topics
            await self._delete_marked([topics[name] for name in some if name in topics])
            await self._delete_what_is_left([name for name in some if name not in topics])

    async def _mark(self, topic_ids: Sequence[Uuid], results: dict[Uuid, KafkaError | None]) -> list[Topic]:
        """Mark topics for deletion; add the result of each, and return those that are marked."""
        results.update(dict.fromkeys(topic_ids, _unknown_topic_id()))
        topics = self._writer.image.topics_by_id
        marked = [topics[topic_id] for topic_id in topic_ids if topic_id in topics]
        try:
            await self._writer.commit([each for topic in marked for each in _marks(topic)])
        except NodeError:  # others have changed one of them, or marked it
            marked = []
            for topic_id in topic_ids:
                try:
                    marked.append(
                        await self._writer.until_current(functools.partial(self._mark_one, topic_id))
                    )
                except KafkaError as error:
                    results[topic_id] = error
        except KafkaError as error:
            results.update((topic.id, error) for topic in marked)
            return []
        results.update((topic.id, None) for topic in marked)
        return marked

    async def _mark_one(self, topic_id: Uuid) -> Topic:
        topic = self._writer.image.topics_by_id.get(topic_id)
        if topic is None:
            raise _unknown_topic_id()
        try:
            await self._writer.commit(_marks(topic))
        except NodeExistsError:
            logger.info("the topic %s is marked for deletion already", topic.name)
        return topic

    async def _delete_marked(self, topics: Sequence[Topic]) -> None:
        """Delete the logs of marked topics, and then their nodes."""
        if not topics:
            return
        names = [topic.name for topic in topics]
        shown = [name for name in names if name in self._writer.image.topics]
        await self._writer.publish_deletion(self._writer.image.with_topics(deleted=shown))
        operations: list[Operation] = []
        for topic in topics:
            name = topic.name
            for index, state in enumerate(topic.partitions):
                operations.append(Delete(znodes.partition_state_path(name, index), state.version))
                operations.append(Delete(znodes.partition_path(name, index)))
            operations.append(Delete(znodes.partitions_path(name)))
            operations.append(Delete(znodes.topic_path(name), topic.version))
            operations.append(Delete(znodes.topic_config_path(name), topic.config_version))
            operations.append(Delete(znodes.delete_topic_path(name)))
            await asyncio.sleep(0)  # let other requests run
        try:
            await self._writer.commit(operations)
        except NodeError:
            await self._delete_what_is_left(names)

    async def _delete_what_is_left(self, names: Sequence[str]) -> None:
        """Delete the nodes that marked topics have now, which the image no longer shows."""
        if names:
            await delete_topic_nodes(self._writer, self._store, names, in_parts=False)

    # --- what others have written -------------------------------------------------------------------------

    async def finish_topics(self) -> None:
        """Add the missing ids, partitions and leaders of topics whose nodes others have written.

        What a partition has had, somebody is deleting: node by node, those of the topic last. The caller
        holds the turn.

        Raises:
            KafkaError, MetadataStoreError: some could not be completed.
        """
        for name in sorted(self._writer.image.unfinished):
            await self._writer.until_current(functools.partial(self._finish, name))

    async def _finish(self, name: str) -> None:
        path = znodes.topic_path(name)
        try:
            node, below = await self._store.get(path), await self._store.subtree(path)
            topic_id, assignment = znodes.decode_topic(path, node.data)
        except (NoNodeError, DamagedNodeError):
            return  # the store reports the next change of the node
        operations: list[Operation] = []
        if topic_id is None:
            operations.append(
                SetData(path, znodes.encode_topic(random_uuid(), assignment), node.stat.version)
            )
        missing = [
            index
            for index, partition in enumerate(assignment)
            if partition != GAP
            and not (self._controller and self._controller.has_led(TopicPartition(name, index)))
        ]
        if missing and znodes.partitions_path(name) not in below:
            operations.append(Create(znodes.partitions_path(name)))
        for index in missing:
            if znodes.partition_path(name, index) not in below:
                operations.append(Create(znodes.partition_path(name, index)))
            if self._controller is not None:
                continue  # which elects the leaders
            replicas = assignment[index].replicas
            alive = tuple(each for each in replicas if each in self._writer.image.brokers)
            state_path = znodes.partition_state_path(name, index)
            if state_path not in below and alive:
                state = LeaderAndIsr(alive[0], 0, alive, self._writer.controller_epoch)
                operations.append(Create(state_path, znodes.encode_state(state)))
        if operations:
            await self._write([Check(path, node.stat.version), *operations])
            await self._writer.catch_up_with([path])


def _within_quota(
    planned: Sequence[Topic], take: TakePartitions, results: dict[str, Topic | KafkaError]
) -> list[Topic]:
    """The topics that the quota of the client allows; the errors of others go to `results`."""
    if take is no_quota:
        return list(planned)
    allowed = []
    for topic in planned:
        try:
            take(len(topic.partitions))
            allowed.append(topic)
        except KafkaError as error:
            results[topic.name] = error
    return allowed


def _unknown_topic_id() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)


def _marks(topic: Topic) -> list[Operation]:
    """The operations that mark a topic for deletion, unless it has changed."""
    return [Check(znodes.topic_path(topic.name), topic.version), Create(znodes.delete_topic_path(topic.name))]
