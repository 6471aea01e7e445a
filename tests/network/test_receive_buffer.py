"""The memory of a request that is not complete."""

from __future__ import annotations

import pytest

from kafkapy.network import receive_buffer
from tests.calls import calls_of
from tests.network.harness import serving
from tests.network.raw_client import RawClient, eventually

SIZE = 20_000_000
PIECE = 100_000


def test_a_large_request_is_not_copied_each_time_its_buffer_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = calls_of(monkeypatch, receive_buffer, "_allocate")
    with serving() as harness, RawClient(harness.address) as client:
        client.send((SIZE + 1).to_bytes(4, "big"))
        for _ in range(SIZE // PIECE):
            client.send(bytes(PIECE))
        eventually(lambda: harness.server.shared.buffered_bytes >= SIZE, "all has arrived but a byte")
    assert max(call.arguments[0] for call in made) < 1_000_000
