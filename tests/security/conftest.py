from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkapy import Broker
from tests.security.certificates import Certificates
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners, settings


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def listeners(certificates: Certificates, issuer: Issuer) -> Iterator[Listeners]:
    """A broker with a listener of each security protocol; tests leave its settings as they are."""
    with Broker(config=settings(certificates, issuer)) as broker:
        yield Listeners(broker)
