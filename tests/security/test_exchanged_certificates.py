"""A certificate is exchanged while the broker runs, for one with the same names (KIP-226)."""

from __future__ import annotations

import logging
import os
import shutil
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.security.tls.key_store import MOST_BYTES
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners

PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL
LOCATION = "listener.name.ssl.ssl.keystore.location"
BROKER = 4

Start = Callable[..., Listeners]


def settings(store: Path) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }


@pytest.fixture
def store(certificates: Certificates, tmp_path: Path) -> Path:
    """The file with the broker's key, in whose place others are put."""
    path = tmp_path / "store.pem"
    shutil.copy(certificates.server, path)
    return path


@pytest.fixture
def listeners(store: Path) -> Iterator[Listeners]:
    with Broker(config=settings(store)) as broker:
        yield Listeners(broker)


def shown(listeners: Listeners, certificates: Certificates) -> bytes:
    """The certificate that a new client sees."""
    context = trusting(certificates)
    context.check_hostname = False
    with listeners.connect(SSL, context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        found = client.socket.getpeercert(binary_form=True)
        assert found is not None
        return found


def first_in(path: Path) -> bytes:
    marker = "-----BEGIN CERTIFICATE-----"
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(marker + text.split(marker)[1])


def alter(listeners: Listeners, *settings: tuple[str, str], validate_only: bool = False) -> tuple[int, str]:
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    with listeners.connect(PLAINTEXT) as client:
        (answer,) = client.ask(request, 1).responses
    return answer.error_code, answer.error_message or ""


@pytest.mark.parametrize("name", ["renewed", "widened"])
def test_a_certificate_with_the_same_names_takes_its_place(
    listeners: Listeners, certificates: Certificates, name: str
) -> None:
    new: Path = getattr(certificates, name)
    assert alter(listeners, (LOCATION, str(new))) == (ErrorCode.NONE, "")
    assert shown(listeners, certificates) == first_in(new)


def test_a_changed_file_is_read_when_its_name_is_written_again(
    listeners: Listeners, certificates: Certificates, store: Path
) -> None:
    assert alter(listeners, (LOCATION, str(store))) == (ErrorCode.NONE, "")
    for name in (certificates.renewed, certificates.server, certificates.widened):
        before = shown(listeners, certificates)
        shutil.copy(name, store)
        assert shown(listeners, certificates) == before
        assert alter(listeners, (LOCATION, str(store)), validate_only=True) == (ErrorCode.NONE, "")
        assert shown(listeners, certificates) == before
        assert alter(listeners, (LOCATION, str(store))) == (ErrorCode.NONE, "")
        assert shown(listeners, certificates) == first_in(name)


@pytest.mark.parametrize("kind", ["pipe", "device", "long file"])
def test_what_is_not_a_short_file_is_refused_and_not_waited_for(
    listeners: Listeners, certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "another.pem"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/null")
    else:
        path.write_bytes(certificates.renewed.read_bytes() + b"\n" * MOST_BYTES)
    reason = f"it has more than {MOST_BYTES} bytes" if kind == "long file" else "it is no file"
    expected = f"{LOCATION}: cannot read {path}: {reason}"
    assert alter(listeners, (LOCATION, str(path))) == (ErrorCode.INVALID_REQUEST, expected)
    assert shown(listeners, certificates) == first_in(certificates.server)


@pytest.mark.parametrize(
    ("name", "message", "allows"),
    [
        ("renamed", "the certificate is for 'CN=another,", "ssl.allow.dn.changes"),
        ("narrowed", "lacks names of the one in use: DNS:localhost;", "ssl.allow.san.changes"),
    ],
)
@pytest.mark.parametrize("in_place", [True, False])
def test_other_names_must_be_allowed(
    certificates: Certificates, store: Path, name: str, message: str, allows: str, in_place: bool
) -> None:
    new: Path = getattr(certificates, name)
    first = Path(shutil.copy(certificates.server, store.with_name("first.pem")))
    for allowed in (False, True):
        config = {**settings(store), allows: str(allowed).lower(), LOCATION: str(first)}
        with Broker(config=config) as broker:
            listeners = Listeners(broker)
            path = Path(shutil.copy(new, first)) if in_place else new
            error, text = alter(listeners, (LOCATION, str(path)))
            if allowed:
                assert error == ErrorCode.NONE
                assert shown(listeners, certificates) == first_in(new)
            else:
                assert error == ErrorCode.INVALID_REQUEST
                assert text.startswith(f"{LOCATION}: ")
                assert message in text
                assert text.endswith(f"start the broker with {allows}=true")
                assert shown(listeners, certificates) == first_in(certificates.server)
        shutil.copy(certificates.server, first)


def test_a_file_with_other_names_is_not_taken_by_another_change(
    listeners: Listeners, certificates: Certificates, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copy(certificates.renamed, store)
    caplog.set_level(logging.ERROR)
    assert alter(listeners, ("log.cleaner.backoff.ms", "20000")) == (ErrorCode.NONE, "")
    assert shown(listeners, certificates) == first_in(certificates.server)
    assert (
        "The listener SSL keeps its keys and logins: ssl.keystore.location: the certificate is" in caplog.text
    )

    async def now(core: BrokerCore) -> int:
        return int(core.config["log.cleaner.backoff.ms"])

    assert listeners.broker.call(now) == 20_000
