"""A member of a group in a process of its own.

Start it with `python -m scripts.benchmarks.coordinators.lone_consumer`. It can be killed, while the other
members of the group stay.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer

_ROOT = Path(__file__).resolve().parents[3]


def consumer_settings(bootstrap_servers: str, group: str, protocol: str) -> dict[str, object]:
    """The settings of a member.

    With the consumer protocol the broker sets the times.
    """
    times = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000} if protocol == "classic" else {}
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
        **times,
    }


@contextmanager
def lone_consumer(
    bootstrap_servers: str, group: str, protocol: str, topic: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run it; it has subscribed when this begins."""
    command = [sys.executable, "-m", "scripts.benchmarks.coordinators.lone_consumer"]
    with subprocess.Popen(
        [*command, bootstrap_servers, group, protocol, topic], cwd=_ROOT, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("a consumer did not start")
            yield process
        finally:
            process.kill()


def _main(bootstrap_servers: str, group: str, protocol: str, topic: str) -> None:
    consumer = Consumer(consumer_settings(bootstrap_servers, group, protocol))
    consumer.subscribe([topic])
    print("at work", flush=True)
    while True:
        consumer.poll(1.0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
