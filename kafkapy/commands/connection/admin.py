"""A cluster, as commands administer it.

The methods of the admin client are used where they keep each item's error and message. For all else,
`send` takes a request of `kafka.protocol` or of `kafkapy.commands.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.net.compat import KafkaNetClient
from kafka.structs import TopicPartition

from kafkapy.commands.connection.failures import explained, quieten, reached
from kafkapy.errors import UserError
from kafkapy.protocol.errors import ErrorCode


class Coordinator(IntEnum):
    """The kinds of coordinators, as FindCoordinator has them."""

    GROUP = 0
    TRANSACTION = 1


class Admin:
    """A connection to a cluster; a context manager.

    Args:
        config: the arguments of kafka-python's clients.
        timeout: seconds for the connection and for each request.
    """

    def __init__(self, config: dict[str, Any], timeout: float) -> None:
        quieten()
        self.timeout_ms = round(timeout * 1000)
        connections: list[Any] = []

        def connect(**settings: Any) -> Any:
            connections.append(KafkaNetClient(**settings))
            return connections[0]

        try:
            with reached(config):
                self.client = KafkaAdminClient(
                    **config,
                    bootstrap_timeout_ms=self.timeout_ms,
                    request_timeout_ms=self.timeout_ms,
                    kafka_client=connect,
                )
        except BaseException:
            # kafka-python leaves the sockets and the thread of a client that was not made.
            for connection in connections:
                connection.close()
                connection._manager._net.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    @contextmanager
    def calls(self) -> Iterator[Any]:
        """The admin client; what it raises in the `with` block becomes one line for the user."""
        with explained():
            yield self.client

    def send(self, request: Any, broker: int | None = None) -> Any:
        """The answer of a broker to the request; of any broker without `broker`."""
        with self.calls() as client:
            manager = client._manager
            return manager.run(manager.send, request, broker)

    def to_controller(self, request: Any) -> Any:
        """The controller's answer; it is looked for again if it has changed."""
        with self.calls() as client:
            return client._manager.run(client._send_request_to_controller, request, _no_controller)

    def to_coordinators(
        self, keys: Iterable[str], kind: Coordinator, request: Callable[[Sequence[str]], Any]
    ) -> Iterator[Any]:
        """The answers of the coordinators of groups or transactional ids, each to its own keys."""
        by_broker: dict[int, list[str]] = {}
        with self.calls() as client:
            found = client._manager.run(client._find_coordinator_ids, list(keys), kind)
        for key, broker in found.items():
            by_broker.setdefault(broker, []).append(key)
        for broker, own in by_broker.items():
            yield self.send(request(own), broker)

    def brokers(self) -> list[dict[str, Any]]:
        """The brokers of the cluster, by id."""
        with self.calls() as client:
            return sorted(client.describe_cluster()["brokers"], key=lambda broker: int(broker["broker_id"]))

    def broker_ids(self) -> list[int]:
        """The ids of the brokers that are not fenced."""
        return [broker["broker_id"] for broker in self.brokers() if not broker.get("is_fenced")]

    def advertised(self) -> list[dict[str, Any]]:
        """The brokers of the first answer, whether they can be reached at their addresses or not."""
        found = self.client._manager.cluster.brokers()
        return sorted(
            ({"broker": each.node_id, "host": f"{each.host}:{each.port}"} for each in found),
            key=lambda broker: int(broker["broker"]),
        )

    def topics(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The metadata of topics, sorted; raises UserError for an unknown one."""
        with self.calls() as client:
            found = sorted(client.describe_topics(None if names is None else list(names)), key=_name)
        for topic in found:
            if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UserError(f"there is no topic {topic['name']}; kafkapy topics list names all")
            if topic["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise UserError(f"topic {topic['name']}: TOPIC_AUTHORIZATION_FAILED: this user has no right")
        return found

    def partitions(self, topics: Sequence[str] | None = None) -> list[Any]:
        """The partitions of topics, of all without `topics`, in order."""
        return [
            TopicPartition(topic["name"], partition)
            for topic in self.topics(topics)
            for partition in sorted(each["partition_index"] for each in topic["partitions"])
        ]

    def offsets(self, partitions: Iterable[Any], spec: Any) -> dict[Any, int]:
        """The offset of each partition: its start, end, or the first at a time."""
        wanted = dict.fromkeys(partitions, spec)
        if not wanted:
            return {}
        with self.calls() as client:
            found = client.list_partition_offsets(wanted, timeout_ms=self.timeout_ms)
        return {partition: answer.offset for partition, answer in found.items()}


def _no_controller(response: Any) -> Iterator[Any]:
    """The errors of an answer for kafka-python: NOT_CONTROLLER, if it has it anywhere."""
    codes = [getattr(response, "error_code", 0)]
    for items in ("topics", "responses", "results"):
        codes += [getattr(item, "error_code", 0) for item in getattr(response, items, None) or ()]
    if ErrorCode.NOT_CONTROLLER in codes:
        yield errors.NotControllerError


def _name(topic: dict[str, Any]) -> str:
    return str(topic["name"])
