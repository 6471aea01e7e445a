"""The load of coordinators repeats requests where the coordinator is.

Lost offsets are errors.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import parse_request_header, response_parts
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from scripts.benchmarks.cluster.coordinator import SteadyRequest, fetch_errors, fetch_request
from scripts.benchmarks.coordinators.offsets import find_coordinator
from scripts.benchmarks.wire import receive


class ScriptedBroker:
    """Coordinates every group, and answers with errors first.

    OffsetFetch is answered with these errors, then with the offset 5.
    None ends the connection instead.
    """

    def __init__(self, script: Sequence[ErrorCode | None]) -> None:
        self._script = list(script)
        self.lookups = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while True:
                try:
                    header, _ = parse_request_header(receive(connection))
                except (OSError, RuntimeError):  # the client has closed it
                    return
                answer = self._answer(header.api_key)
                if answer is None:
                    return
                connection.sendall(answer_bytes(header.api_version, header.correlation_id, answer))

    def _answer(self, api_key: int) -> TopMessage | None:
        if api_key == FindCoordinatorRequest.KEY:
            self.lookups += 1
            host, port = self.address
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", host=host, port=port)])
        error = self._script.pop(0) if self._script else ErrorCode.NONE
        return None if error is None else fetched(5, error)

    def close(self) -> None:
        self._listener.close()


def fetched(offset: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset)
    topic = OffsetFetchResponseTopics(name="t", partitions=[partition])
    topics = [] if error else [topic]
    return OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=error)]
    )


def answer_bytes(version: int, correlation_id: int, response: TopMessage) -> bytes:
    """The whole frame of an answer without records."""
    (part,) = response_parts(response.KEY or 0, version, correlation_id, response)
    assert isinstance(part, bytes)
    return part


def frame(response: OffsetFetchResponse) -> bytes:
    return answer_bytes(8, 7, response)[4:]


@pytest.fixture
def brokers() -> Iterator[list[ScriptedBroker]]:
    made: list[ScriptedBroker] = []
    yield made
    for broker in made:
        broker.close()


def ask_steadily(brokers: list[ScriptedBroker], *script: ErrorCode | None) -> SteadyRequest:
    brokers.append(ScriptedBroker(script))
    return SteadyRequest([brokers[0].address], "g", fetch_request("g"), fetch_errors)


def test_a_request_is_asked_again_after_a_lookup(brokers: list[ScriptedBroker]) -> None:
    script = ErrorCode.NOT_COORDINATOR, None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with ask_steadily(brokers, *script) as request:
        request.wait_for_more(3)
    assert brokers[0].lookups == 4


def test_an_error_that_no_client_retries_ends_the_load(brokers: list[ScriptedBroker]) -> None:
    with (
        ask_steadily(brokers, ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED) as request,
        pytest.raises(RuntimeError, match="g: GROUP_AUTHORIZATION_FAILED"),
    ):
        request.wait_for_more(3)


def test_the_time_without_answers_is_the_longest_gap(brokers: list[ScriptedBroker]) -> None:
    with ask_steadily(brokers, *[ErrorCode.NONE] * 3, *[ErrorCode.NOT_COORDINATOR] * 40) as request:
        request.wait_for_more(6)
    assert request.longest_gap([0], since=0).seconds >= 40 * 0.005


def test_a_broker_that_is_gone_is_not_asked_for_a_coordinator(brokers: list[ScriptedBroker]) -> None:
    brokers.append(ScriptedBroker([]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()
    assert find_coordinator([gone, brokers[0].address], "g") == brokers[0].address
    assert find_coordinator([gone], "g") is None


def test_an_offset_that_is_lost_is_no_answer() -> None:
    assert fetch_errors(frame(fetched(0))) == set()
    assert fetch_errors(frame(fetched(-1, ErrorCode.NOT_COORDINATOR))) == {ErrorCode.NOT_COORDINATOR}
    with pytest.raises(LookupError, match="the offset that g has committed is lost"):
        fetch_errors(frame(fetched(-1)))
