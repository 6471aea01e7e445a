"""A client that resets its connection is noticed, whatever it has sent before."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from kafkapy.loop.event_loop import new_event_loop
from tests.network.harness import serving
from tests.network.raw_client import RawClient, api_versions, eventually

NOW = struct.pack("ii", 1, 0)


@pytest.mark.parametrize("sent", [7, 0], ids=["a part of a request", "nothing"])
@pytest.mark.parametrize("make_loop", [new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_a_reset_that_comes_with_bytes_is_noticed(
    make_loop: Callable[[], asyncio.AbstractEventLoop], sent: int
) -> None:
    with serving(make_loop=make_loop) as harness, RawClient(harness.address) as client:
        eventually(lambda: len(harness.connections) == 1, "it is accepted")
        held, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go_on.wait(10)

        harness.loop.call_soon_threadsafe(hold)
        assert held.wait(10)
        client.send(api_versions()[:sent])
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        client.socket.close()
        go_on.set()
        eventually(lambda: not harness.connections, "it is closed", 10)
