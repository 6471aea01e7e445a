"""A client of ZooKeeper for the tests: somebody who looks at its tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def looking_at(connect: str) -> Iterator[KazooClient]:
    """A client with a session for the `with` block; `connect` is HOST:PORT[,...][/chroot]."""
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
