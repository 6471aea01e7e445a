from __future__ import annotations

import ssl
import time

import pytest

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.network.raw_client import RawClient, eventually
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners

SSL = SecurityProtocol.SSL


def test_a_client_without_a_certificate_is_anonymous(
    listeners: Listeners, certificates: Certificates
) -> None:
    with listeners.connect(SSL, trusting(certificates)) as client:
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
        assert listeners.connection_of(client.socket).principal == "User:ANONYMOUS"


def test_a_client_has_the_name_in_its_certificate(listeners: Listeners, certificates: Certificates) -> None:
    with listeners.connect(SSL, trusting(certificates, "client")) as client:
        client.ask(MetadataRequest(topics=[]), 12)
        principal = listeners.connection_of(client.socket).principal
    assert principal.startswith("User:CN=alice,OU=Tests,O=Example")


def test_a_certificate_of_another_authority_is_refused(
    listeners: Listeners, certificates: Certificates
) -> None:
    def ask() -> None:
        with listeners.connect(SSL, trusting(certificates, "stranger")) as client:
            client.ask(MetadataRequest(topics=[]), 12)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(
    listeners: Listeners, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = trusting(certificates)
    context.minimum_version = context.maximum_version = version
    with listeners.connect(SSL, context) as client:
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize(
    ("enabled", "offered"),
    [
        ("TLSv1.2", ssl.TLSVersion.TLSv1_3),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_2),
        pytest.param(
            "TLSv1.2,TLSv1.3",
            ssl.TLSVersion.TLSv1_1,
            marks=pytest.mark.filterwarnings("ignore:.*TLSv1_1:DeprecationWarning"),
        ),
    ],
)
def test_the_log_says_that_a_version_of_tls_is_refused(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, enabled: str, offered: ssl.TLSVersion
) -> None:
    context = trusting(certificates)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = offered
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.enabled.protocols": enabled,
    }
    with Broker(config=config) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Listeners(broker).connect(SSL, context)
        eventually(lambda: "no version of TLS that ssl.enabled.protocols has" in caplog.text, "it is logged")
        with Listeners(broker).connect(SSL, trusting(certificates)) as client:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_a_client_without_tls_is_closed(listeners: Listeners) -> None:
    with listeners.connect(SSL) as client:
        client.send(b"\0\0\0\x10" + b"\0" * 16)
        assert client.is_closed()


def test_a_slow_handshake_holds_up_nobody(listeners: Listeners, certificates: Certificates) -> None:
    slow = [RawClient(listeners.address(SSL)) for _ in range(20)]
    for each in slow:
        each.send(b"\x16\x03\x01\x02")  # the start of a ClientHello
    with listeners.connect(SSL, trusting(certificates)) as client:
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
    for each in slow:
        each.close()


def test_a_client_hears_that_the_connection_ends(listeners: Listeners, certificates: Certificates) -> None:
    context = trusting(certificates)
    client = RawClient(listeners.address(SSL))
    wrapped = context.wrap_socket(client.socket, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
    wrapped.sendall(b"\xff\xff\xff\xff")  # no size of a request
    assert wrapped.recv(1) == b""  # close_notify came first, otherwise this is an error
    wrapped.close()


def test_a_connection_that_is_closed_within_its_handshake_is_forgotten(listeners: Listeners) -> None:
    server = listeners.broker.core.server
    before = len(server.connections)
    for _ in range(10):
        with RawClient(listeners.address(SSL)) as client:
            client.send(b"\x16\x03\x01\x02")
    deadline = time.monotonic() + 10
    while len(server.connections) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(server.connections) <= before
