"""Clients that come in the wrong way are told what is wrong, and do not fill the log."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import pytest

from kafkapy.network.unknown_protocols import MOST, REASONS, SECONDS, Complaints
from tests.network.raw_client import RawClient
from tests.servers.kafkapy_process import KafkapyProcess

TLS_HELLO = bytes.fromhex("16030100050100000100")


@pytest.mark.parametrize(
    ("first_bytes", "said"),
    [
        (TLS_HELLO, "the client speaks TLS, and"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, and"),
        (b"PRI * HTTP/2.0\r\n\r\n", "the client speaks HTTP, and"),
        (b"\x7f\xff\xff\xff", "a request of 2147483647 bytes"),
        (struct.pack(">ihhih", 10, 3, 9, 1, -1), "a request that cannot be read"),
        (struct.pack(">ihhihb", 11, 3, 999, 1, -1, 0), "API key 3 version 999 is not supported"),
    ],
    ids=["TLS", "HTTP", "HTTP/2", "too large", "unreadable", "unknown version"],
)
def test_a_client_that_comes_in_the_wrong_way_is_named_once(
    tmp_path: Path, first_bytes: bytes, said: str
) -> None:
    with KafkapyProcess(tmp_path) as broker:
        for _ in range(10):
            with RawClient(broker.bootstrap_servers) as client:
                client.send(first_bytes)
                assert client.is_closed()
        assert broker.stop() == 0
        lines = [
            line for line in broker.log_path.read_text().splitlines() if "Closing the connection" in line
        ]
        assert len(lines) == 1
        assert said in lines[0]


def test_each_address_is_named_once_a_minute() -> None:
    complaints = Complaints()
    assert complaints.level("10.0.0.1", "TLS", 0) == logging.WARNING
    assert complaints.level("10.0.0.1", "TLS", SECONDS - 1) == logging.DEBUG
    assert complaints.level("10.0.0.2", "TLS", SECONDS - 1) == logging.WARNING
    assert complaints.level("10.0.0.1", "TLS", SECONDS) == logging.WARNING


def test_a_health_check_does_not_hide_a_client_of_the_same_address(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path) as broker:
        for first_bytes in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ihhihb", 11, 3, 999, 1, -1, 0)):
            with RawClient(broker.bootstrap_servers) as client:
                client.send(first_bytes)
                assert client.is_closed()
        assert broker.stop() == 0
        log = broker.log_path.read_text()
    assert "the client speaks HTTP" in log
    assert "API key 3 version 999 is not supported" in log


def test_the_lines_of_an_address_are_limited_whatever_they_say() -> None:
    complaints = Complaints()
    levels = [complaints.level("10.0.0.1", f"a request of {size} bytes", 0) for size in range(100)]
    assert levels.count(logging.WARNING) == REASONS


def test_the_addresses_that_are_remembered_are_limited() -> None:
    complaints = Complaints()
    for number in range(MOST + 1):
        complaints.level(str(number), "TLS", 0)
    assert complaints.level(str(MOST), "TLS", 1) == logging.DEBUG
    assert complaints.level("0", "TLS", 1) == logging.WARNING
