"""The socket for `kafkapy backup`: a broker starts, serves and stops without it."""

from __future__ import annotations

import signal
from pathlib import Path

from kafkapy.snapshot import CONTROL
from kafkapy.storage.disk.checkpoints import CLEAN_SHUTDOWN
from tests.network.raw_client import RawClient, api_versions
from tests.servers.piped import address_of, piped, serve_options


def occupy(data: Path) -> None:
    """Make the name of the socket a directory.

    It cannot be unlinked, like a socket on a disk that has failed.
    """
    (data / CONTROL).unlink(missing_ok=True)
    (data / CONTROL / "in the way").mkdir(parents=True)


def test_a_broker_whose_socket_cannot_be_made_serves_clients(tmp_path: Path) -> None:
    occupy(tmp_path / "data")
    with piped("-m", "kafkapy", *serve_options(tmp_path), merged=True) as process:
        with RawClient(address_of(process)) as client:
            client.send(api_versions())
            assert client.receive_frame()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_broker_whose_socket_cannot_be_removed_stops_cleanly(tmp_path: Path) -> None:
    with piped("-m", "kafkapy", *serve_options(tmp_path), merged=True) as process:
        address_of(process)
        occupy(tmp_path / "data")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).is_file()
