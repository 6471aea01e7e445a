"""Two brokers that get the same requests, and the comparison of their answers.

A scenario is a function that sends requests to one broker. `Pair.compare` runs it against Apache Kafka and
against kafkapy. It fails and lists every field that differs, unless the test names the field and a reason:

    pair.compare(scenario, Differs("commit v*", "error_code", "the reason"))

It also fails if such an exception is not needed any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from interop.differential.answers import Fields, Flattener
from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.network.raw_client import RawClient

Scenario = Callable[["Broker"], None]

CLOSED = "the connection is closed"
SILENT = "there is no answer"
PATIENCE = 20.0
"""Seconds after which no answer is expected any more."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Differs:
    """A field in which the brokers may differ; `label` and `path` may contain * and ?."""

    label: str
    path: str
    reason: str

    def covers(self, label: str, path: str) -> bool:
        pattern = self.path.replace("[", "[[]")
        return fnmatchcase(label, self.label) and fnmatchcase(path, pattern)


ALWAYS = (Differs("*", "*error_message", "kafkapy always says why; Apache Kafka often has no message"),)


class Connection:
    """One connection to a broker, opened again when the broker has closed it."""

    def __init__(self, broker: Broker, bootstrap_servers: str) -> None:
        self._broker = broker
        self._bootstrap_servers = bootstrap_servers
        self.client = RawClient(bootstrap_servers)
        self.client.socket.settimeout(PATIENCE)

    def ask(self, label: str, request: TopMessage, version: int) -> Any:
        """Send a request, and note the answer under `label`; None if the broker hangs up."""
        self.begin(request, version)
        return self.end(label, request, version)

    def begin(self, request: TopMessage, version: int) -> None:
        """Send a request without waiting for the answer."""
        self.client.send(encode_request(request, version, 7, "differential"))

    def end(self, label: str, request: TopMessage, version: int) -> Any:
        """Wait for the answer to a request that `begin` sent, and note it."""
        try:
            frame = self.client.receive_frame()
        except (ConnectionError, TimeoutError) as error:
            self._broker.note(label, {"": SILENT if isinstance(error, TimeoutError) else CLOSED})
            self.reopen()
            return None
        assert request.KEY is not None
        _, answer = decode_response(request.KEY, version, frame)
        self._broker.note_answer(label, answer)
        return answer

    def quietly_end(self, request: TopMessage, version: int) -> Any:
        """Wait for the answer to a request that `begin` sent, without noting it."""
        assert request.KEY is not None
        return decode_response(request.KEY, version, self.client.receive_frame())[1]

    def tell(self, label: str, request: TopMessage, version: int) -> None:
        """Send a request without an answer; note whether the broker closes the connection."""
        self.begin(request, version)
        try:
            self.client.ask(ApiVersionsRequest(), 0)
            self._broker.note(label, {"": SILENT})
        except ConnectionError:
            self._broker.note(label, {"": CLOSED})
            self.reopen()

    def quietly(self, request: TopMessage, version: int) -> Any:
        """Send a request and return the answer, without noting it."""
        return self.client.ask(request, version)

    def reopen(self) -> None:
        self.close()
        self.client = RawClient(self._bootstrap_servers)
        self.client.socket.settimeout(PATIENCE)

    def close(self) -> None:
        self.client.close()


class Broker:
    """One of the two brokers, in one scenario."""

    def __init__(self, name: str, bootstrap_servers: str, prefix: str, common: dict[int, range]) -> None:
        self.name = name
        self.prefix = prefix
        """The prefix of the names of topics and groups, the same at both brokers."""
        self.answers: dict[str, Fields] = {}
        self._bootstrap_servers = bootstrap_servers
        self._common = common
        self._flattener = Flattener()
        self._connections: list[Connection] = []
        self._names = itertools.count(1)
        self.main = self.connect()

    def connect(self) -> Connection:
        """Open another connection, for requests that must not wait for others."""
        connection = Connection(self, self._bootstrap_servers)
        self._connections.append(connection)
        return connection

    def ask(self, label: str, request: TopMessage, version: int) -> Any:
        return self.main.ask(label, request, version)

    def versions(self, request: type[TopMessage], first: int = 0) -> range:
        """The versions of an API that both brokers have, from `first` on."""
        assert request.KEY is not None
        common = self._common[request.KEY]
        return range(max(common.start, first), common.stop)

    def note_answer(self, label: str, answer: TopMessage) -> None:
        self.note(label, self._flattener.fields(answer))

    def note(self, label: str, fields: Fields) -> None:
        assert label not in self.answers, f"{label!r} is asked twice"
        self.answers[label] = fields

    def name_of(self, what: str) -> str:
        """A name that only this scenario uses, the same at both brokers."""
        return f"{self.prefix}-{what}"

    def topic(self, what: str | None = None, partitions: int = 1, **configs: str) -> str:
        """Make a topic, wait until it can be used, and return its name."""
        name = self.name_of(what or f"topic{next(self._names)}")
        settings = {"retention_ms": "-1", **configs}
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in settings.items()
                    ],
                )
            ]
        )
        (answer,) = self.main.quietly(request, 7).topics
        assert answer.error_code == ErrorCode.NONE, answer
        self._flattener.topic_names[answer.topic_id] = name
        wait_until(lambda: self._is_led(name, partitions))
        return name

    def topic_id(self, name: str) -> bytes:
        ids = {known: topic_id for topic_id, known in self._flattener.topic_names.items()}
        return ids[name]

    def _is_led(self, name: str, partitions: int) -> bool:
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)])
        (topic,) = self.main.quietly(request, 4).topics
        return all(each.error_code == ErrorCode.NONE for each in topic.partitions)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class Pair:
    """Apache Kafka and kafkapy."""

    def __init__(self, kafka: str, kafkapy: str) -> None:
        self._addresses = {"kafka": kafka, "kafkapy": kafkapy}
        theirs, ours = _api_versions(kafka), _api_versions(kafkapy)
        self.ranges = {key: (theirs[key], ours[key]) for key in theirs.keys() & ours.keys()}
        """The versions of Apache Kafka and of kafkapy, for each API that both have."""
        self.common = {
            key: range(max(one.start, two.start), min(one.stop, two.stop))
            for key, (one, two) in self.ranges.items()
        }

    def compare(self, scenario: Scenario, *exceptions: Differs) -> None:
        """Run `scenario` against both; fail if they differ where no exception allows it."""
        prefix = f"{scenario.__name__.strip('_').replace('_', '-')}-{next(_numbers)}"
        kafka, kafkapy = (self._run(name, scenario, prefix) for name in self._addresses)
        assert list(kafka) == list(kafkapy), "the two brokers were not asked the same"
        exceptions += ALWAYS
        unused = set(exceptions).difference(ALWAYS)
        differing = []
        for label, theirs in kafka.items():
            ours = kafkapy[label]
            for path in dict.fromkeys((*theirs, *ours)):
                if theirs.get(path, "(no such field)") == ours.get(path, "(no such field)"):
                    continue
                covering = [each for each in exceptions if each.covers(label, path)]
                unused.difference_update(covering)
                if not covering:
                    differing.append(
                        f"{label}: {path}: Kafka {_shown(theirs.get(path))}, kafkapy {_shown(ours.get(path))}"
                    )
        assert not differing, "\n" + "\n".join(differing)
        assert not unused, f"the brokers do not differ (any more): {unused}"

    def _run(self, name: str, scenario: Scenario, prefix: str) -> dict[str, Fields]:
        broker = Broker(name, self._addresses[name], prefix, self.common)
        try:
            scenario(broker)
        finally:
            broker.close()
        return broker.answers


def _api_versions(address: str) -> dict[int, range]:
    with RawClient(address) as client:
        answer = client.ask(ApiVersionsRequest(), 0)
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else text[:400] + "…"
