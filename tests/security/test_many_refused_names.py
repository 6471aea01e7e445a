"""Names without rights, as many as a request takes: no API holds the event loop for them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import pytest

import kafkapy
from kafkapy import handlers
from kafkapy.handlers import Api
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.schema import Field
from kafkapy.protocol.types import ApiKey
from tests.handlers.group_client import find_coordinator as find
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
from tests.security.sample_requests import TOPIC_FIELDS, Names, sample
from tests.security.test_rights import ADMIN, MALLORY, SETTINGS, become

MANY: Final = 10_000
NAMES: Final = [f"secret-topic-{number:05}" for number in range(MANY)]
OF_NAMES: Final = ("topic_names", "users", "owners")
"""Arrays of names without anything else."""


def array_of_names(api: Api) -> tuple[Field, str | None] | None:
    """The array of an API that names topics, and the field of its elements with the name."""
    for field in schema_of(request_class(api.key)).root.fields:
        if api.max_version in field.versions and field.is_array:
            if field.struct is None and field.name in OF_NAMES:
                return field, None
            for inner in field.struct.fields if field.struct is not None else ():
                if api.max_version in inner.versions and inner.name in TOPIC_FIELDS and not inner.is_array:
                    return field, inner.name
    return None


def request_of(api: Api) -> TopMessage:
    """A request that names as many topics."""
    request = sample(api.key, api.max_version, Names("t", "g", "x"))
    found = array_of_names(api)
    assert found is not None
    array, name = found
    if name is None:
        setattr(request, array.name, NAMES)
        return request
    (one,) = getattr(request, array.name)
    elements = []
    for each in NAMES:
        element = copy.copy(one)
        setattr(element, name, each)
        elements.append(element)
    setattr(request, array.name, elements)
    return request


@pytest.fixture(scope="module")
def watch() -> Iterator[LoopWatch]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield LoopWatch(monkeypatch)


@pytest.fixture(scope="module")
def broker(watch: LoopWatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkapy.Broker]:
    with watch.broker(tmp_path_factory.mktemp("broker"), SETTINGS) as broker:
        with RawClient(broker.bootstrap_servers) as admin:
            become(broker, admin, ADMIN)
            find(admin, "any")
            find(admin, "any", key_type=1)
        yield broker


@pytest.mark.parametrize(
    "api", [api for api in handlers.APIS if array_of_names(api)], ids=lambda api: ApiKey(api.key).name
)
def test_many_names_without_rights_do_not_hold_the_event_loop(
    broker: kafkapy.Broker, watch: LoopWatch, api: Api
) -> None:
    data = encode_request(request_of(api), api.max_version, 7, "raw")
    with RawClient(broker.bootstrap_servers) as mallory:
        become(broker, mallory, MALLORY)
        mallory.socket.settimeout(300)

        def ask() -> None:
            mallory.send(data)
            mallory.receive_frame()

        ask()  # its module may have to be compiled
        watch.check_each(ask, f"{api.module}: ")
