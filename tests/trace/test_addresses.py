"""Clients get the proxy's addresses wherever an answer tells those of brokers."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import pytest

from kafkapy.protocol import codec
from kafkapy.protocol.frames import decode_response, encode_request, response_frame
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import (
    describe_cluster,
    fetch,
    find_coordinator,
    metadata,
    produce,
    share_fetch,
)
from tests.trace.relaying import relaying


def told(request: TopMessage, version: int, response: TopMessage) -> Any:
    """The answer that a client gets through the proxy when a broker gives `response`."""
    assert response.KEY is not None
    key, answer = response.KEY, codec.encode(response, version)

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(response_frame(key, version, 7, answer))
            peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with relaying(f"127.0.0.1:{listener.getsockname()[1]}") as traced:
            host, _, port = traced.address.rpartition(":")
            with socket.create_connection((host, int(port)), 30) as client:
                client.sendall(encode_request(request, version, 7, "app"))
                (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
                frame = client.recv(size, socket.MSG_WAITALL)
        thread.join(30)
    return decode_response(key, version, frame)[1]


BROKER: dict[str, Any] = {"host": "kafka.example", "port": 9092}


@pytest.mark.parametrize(
    ("request_", "version", "response", "places"),
    [
        (
            metadata.MetadataRequest(),
            12,
            metadata.MetadataResponse(brokers=[metadata.MetadataResponseBroker(node_id=1, **BROKER)]),
            "brokers",
        ),
        (
            describe_cluster.DescribeClusterRequest(),
            1,
            describe_cluster.DescribeClusterResponse(
                brokers=[describe_cluster.DescribeClusterBroker(broker_id=1, **BROKER)]
            ),
            "brokers",
        ),
        (
            find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]),
            4,
            find_coordinator.FindCoordinatorResponse(
                coordinators=[find_coordinator.Coordinator(key="g", node_id=1, **BROKER)]
            ),
            "coordinators",
        ),
        (
            produce.ProduceRequest(acks=1),
            11,
            produce.ProduceResponse(node_endpoints=[produce.NodeEndpoint(node_id=1, **BROKER)]),
            "node_endpoints",
        ),
        (
            fetch.FetchRequest(),
            16,
            fetch.FetchResponse(node_endpoints=[fetch.NodeEndpoint(node_id=1, **BROKER)]),
            "node_endpoints",
        ),
        (
            share_fetch.ShareFetchRequest(),
            1,
            share_fetch.ShareFetchResponse(node_endpoints=[share_fetch.NodeEndpoint(node_id=1, **BROKER)]),
            "node_endpoints",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, TopMessage) else None,
)
def test_an_address_in_an_answer_is_the_proxys(
    request_: TopMessage, version: int, response: TopMessage, places: str
) -> None:
    (place,) = getattr(told(request_, version, response), places)
    assert place.host == "127.0.0.1"
    assert place.port != 9092


def test_a_coordinator_of_old_versions_is_the_proxys_too() -> None:
    request = find_coordinator.FindCoordinatorRequest(key="g")
    answer = told(request, 2, find_coordinator.FindCoordinatorResponse(node_id=1, **BROKER))
    assert (answer.host, answer.port != 9092) == ("127.0.0.1", True)


def test_a_coordinator_that_is_not_found_has_no_address() -> None:
    request = find_coordinator.FindCoordinatorRequest(key="g")
    answer = told(request, 2, find_coordinator.FindCoordinatorResponse(error_code=15, host="", port=-1))
    assert (answer.host, answer.port) == ("", -1)
