"""Requests with the project's own codec, over the connections of kafka-python.

kafka-python connects, with TLS and logins, and pairs answers with requests. It takes seconds to turn the
answers of a cluster of 10,000 partitions into objects; the codec takes a fraction. So they pass it as bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kafka import errors

from kafkapy.commands.connection.admin import Admin
from kafkapy.commands.connection.failures import check, explained
from kafkapy.errors import UserError
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.types import ApiKey

_AT_ONCE: Final = 4
"""Requests at once: kafka-python refuses a sixth of a connection, in place of waiting."""
_BUDGET: Final = 2_000_000
"""The most values of an answer: those of 200,000 partitions."""
_TRIES: Final = 3
_PAUSE: Final = 0.05

R = TypeVar("R", bound=TopMessage)


class Wire:
    """A connection to a cluster, which threads share; a context manager.

    Args:
        config: the arguments of kafka-python's clients.
        timeout: seconds for the connection and for each request.
    """

    def __init__(self, config: Mapping[str, Any], timeout: float) -> None:
        self._admin: Final = Admin(dict(config), timeout)
        self._permits: Final = threading.BoundedSemaphore(_AT_ONCE)
        self._timeout = timeout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.__exit__(kind, error, trace)

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """The cluster as commands administer it, for what is asked rarely; raises UserError."""
        with self._permit():
            yield self._admin

    def ask(
        self,
        request: TopMessage,
        answer: type[R],
        node: int | None = None,
        *,
        newest: int = 99,
        is_change: bool = False,
    ) -> R:
        """The answer of a broker; of any without `node`.

        Args:
            newest: the newest version that may be used.
            is_change: it is not sent again if the connection is lost: it may have been carried out.

        Raises:
            UserError: the broker does not answer, cannot be reached or has no such request.
        """
        client = self._admin.client
        with self._permit(), explained():
            version = self._version(request, newest)
            asked = _Asked(request, version)
            for tries_left in reversed(range(_TRIES)):
                try:
                    frame = client._manager.run(client._manager.send, asked, self._node(node))
                    break
                except (errors.KafkaConnectionError, errors.NodeNotReadyError) as error:
                    # A connection that was idle for long is closed, and the first request notices it.
                    if not tries_left or (is_change and not isinstance(error, errors.NodeNotReadyError)):
                        raise
                    time.sleep(_PAUSE)
        try:
            _, message = decode_response(asked.API_KEY, version, frame.data, budget=_BUDGET)
        except DecodeError as error:
            raise UserError(f"an answer to {type(request).__name__} cannot be read: {error}") from None
        assert isinstance(message, answer)
        return message

    def has(self, api: ApiKey, version: int = 0) -> bool:
        """Whether brokers take this request, in this version."""
        _, newest = self._versions().get(int(api), (0, -1))
        return newest >= version

    def coordinators(self, groups: list[str]) -> dict[int, list[str]]:
        """Groups by the broker that coordinates them."""
        from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        if not groups:
            return {}
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
        found: dict[int, list[str]] = {}
        for each in self.ask(request, FindCoordinatorResponse).coordinators:
            check(each.error_code, each.error_message, f"group {each.key}")
            found.setdefault(each.node_id, []).append(each.key)
        return found

    def node_ids(self) -> list[int]:
        """The brokers that the first answer named, and those that were added since."""
        return sorted(broker.node_id for broker in self._admin.client._manager.cluster.brokers())

    def _node(self, node: int | None) -> int:
        if node is not None:
            return node
        nodes = self.node_ids()
        if not nodes:
            raise UserError("the cluster has no brokers")
        manager = self._admin.client._manager
        return min(nodes, key=lambda each: (manager.connection_delay(each), each))

    def _version(self, request: TopMessage, newest: int) -> int:
        key = request.KEY
        assert key is not None
        first, last = self._versions().get(key, (0, -1))
        version = min(last, request.VERSIONS[1], newest)
        if version < max(first, request.VERSIONS[0]):
            name = type(request).__name__.removesuffix("Request")
            raise UserError(f"the brokers do not have {name} in a version that this page knows")
        return version

    def _versions(self) -> Mapping[int, tuple[int, int]]:
        versions: Mapping[int, tuple[int, int]] = self._admin.client._manager.broker_version_data.api_versions
        return versions

    @contextmanager
    def _permit(self) -> Iterator[None]:
        if not self._permits.acquire(timeout=self._timeout):
            raise UserError("the cluster is slow: other views still wait for it. Try again")
        try:
            yield
        finally:
            self._permits.release()


class _Frame:
    """An answer as kafka-python sees it: bytes."""

    throttle_time_ms: Final = 0

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Header:
    """What kafka-python keeps of a request until its answer comes."""

    def __init__(self, asked: _Asked, correlation_id: int, client_id: str) -> None:
        self.api_key, self.api_version = asked.API_KEY, asked.API_VERSION
        self.correlation_id, self.client_id = correlation_id, client_id
        self.data = b""

    def get_response_class(self) -> _Header:
        return self

    def parse_header(self, buffer: Any) -> _Header:
        """Read the answer; only the correlation id is looked at here."""
        self.data = buffer.read()
        answered = _Header.__new__(_Header)
        answered.correlation_id = int.from_bytes(self.data[:4], "big")
        return answered

    def decode(self, _: Any) -> _Frame:
        return _Frame(self.data)


class _Asked:
    """A request as kafka-python sends it."""

    def __init__(self, request: TopMessage, version: int) -> None:
        assert request.KEY is not None
        self.API_KEY, self.API_VERSION, self._request = request.KEY, version, request
        self.header: _Header | None = None

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.header = _Header(self, correlation_id, client_id)

    def encode(self, **_: bool) -> bytes:
        assert self.header is not None
        return encode_request(
            self._request, self.API_VERSION, self.header.correlation_id, self.header.client_id
        )

    def expect_response(self) -> bool:
        return True
