"""Each array of each request may be long: none holds the event loop, of whichever API.

The requests are built from the schemas, so a new API is tried as soon as it is in the table of APIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

import kafkapy
from kafkapy import handlers
from kafkapy.handlers import Api
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.types import ApiKey
from tests.handlers.group_client import commit
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import create_topic
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
from tests.protocol.long_messages import array_paths, long_message

MANY: Final = 10_000
MOST: Final = 200_000
"""More than a message may hold: it has half of them or fewer (long_message)."""
VALUES: Final[dict[str, Any]] = {
    "acks": -1,
    "allow_auto_topic_creation": False,
    "generation_id_or_member_epoch": -1,
    "group_id": "g",
    "include_documentation": True,
    "include_synonyms": True,
    "isr": [],
    "key_type": 0,
    "member_id": "m",
    "name": "t",
    "protocol_type": "consumer",
    "resource_name": "t",
    "resource_type": 2,
    "session_timeout_ms": 10_000,
    "timeout_ms": 1_000,
    "topic": "t",
    "topic_name": "t",
    "transactional_id": "x",
    "validate_only": True,
}
"""So that requests get beyond the first check, change nothing for long, and are answered."""


def paths_of(api: Api) -> dict[str, int]:
    return array_paths(request_class(api.key), range(api.min_version, api.max_version + 1))


@pytest.fixture(scope="module")
def watch() -> Iterator[LoopWatch]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield LoopWatch(monkeypatch)


@pytest.fixture(scope="module")
def broker(watch: LoopWatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkapy.Broker]:
    """Has a topic, a group and coordinators."""
    path = tmp_path_factory.mktemp("broker")
    with watch.broker(path) as broker, RawClient(broker.bootstrap_servers) as connected:
        find(connected, "any")
        find(connected, "any", key_type=1)
        find(connected, "g:AAAAAAAAAAAAAAAAAAAAAA:0", version=6, key_type=2)
        create_topic(connected, "t")
        commit(connected, "g", {("t", 0): 0})
        yield broker


@pytest.fixture
def client(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        connected.socket.settimeout(300)
        yield connected


@pytest.mark.parametrize(
    "api", [api for api in handlers.APIS if paths_of(api)], ids=lambda api: ApiKey(api.key).name
)
def test_no_long_array_holds_the_event_loop(client: RawClient, watch: LoopWatch, api: Api) -> None:
    """CPU time is measured, with garbage collection off: a busy machine makes turns shorter."""
    for path in paths_of(api):
        check(client, watch, api, path, MANY)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (ApiKey.METADATA, "topics"),
        (ApiKey.PRODUCE, "topic_data.partition_data"),
        (ApiKey.ALTER_CONFIGS, "resources.configs"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.configs"),
        (ApiKey.ALTER_CLIENT_QUOTAS, "entries.ops"),
    ],
)
def test_the_longest_array_that_is_read_does_not_hold_the_event_loop(
    client: RawClient, watch: LoopWatch, key: ApiKey, path: str
) -> None:
    check(client, watch, handlers.BY_KEY[key], path, MOST)


def check(client: RawClient, watch: LoopWatch, api: Api, path: str, count: int) -> None:
    """Check a request of the API with so many elements at `path`, after a short one."""
    handlers.endpoint(api.key)  # its module may have to be compiled
    cls, version = request_class(api.key), paths_of(api)[path]

    def ask(data: bytes) -> None:
        client.send(data)
        client.receive_frame()
        find(client, "any")  # the callback before has ended

    one, all_ = (long_message(cls, version, path, number, **VALUES) for number in (1, count))
    ask(encode_request(one, version, 7, "raw"))  # codecs are compiled when the first of their kind comes
    data = encode_request(all_, version, 7, "raw")
    watch.check_each(partial(ask, data), f"{api.module}, {path}: ")
