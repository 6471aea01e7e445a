"""Faults by HTTP, for tests in any language; on 127.0.0.1 only.

    GET    /faults      {"faults": [{"number": 1, "fault": "produce().error('…')", "hits": 2, "asked": 2}]}
    POST   /faults      a fault as data (spoken.py); its answer, with status 201, describes it
    DELETE /faults      switches all of them off
    DELETE /faults/1    switches one off

An error is {"error": "…"} with status 400, or 404 for a number that is not there. Pages of a browser are
refused, wherever they are from: requests must name this host, come from no origin and bring JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kafkapy.faults.address import HOST, PATH
from kafkapy.faults.fault import Fault
from kafkapy.faults.faults import Faults
from kafkapy.faults.spoken import described, switch_on

MOST_BYTES: Final = 64 << 10
_SECONDS: Final = 30.0
"""How long a client may take with its request, or keep a connection that says nothing."""


class FaultsServer:
    """Serves the faults of a broker; a context manager.

    Raises:
        OSError: the port cannot be used.
    """

    def __init__(self, faults: Faults[Fault], port: int) -> None:
        """`port` 0 is a free one."""
        self._server = _Server(faults, port)
        self.url = f"http://{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="kafkapy-faults", daemon=True
        )

    def __enter__(self) -> FaultsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, faults: Faults[Fault], port: int) -> None:
        self.faults = faults
        super().__init__((HOST, port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        """What a request's Host may be: another name may be that of a page which rebinds its own."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Show the faults."""
        self._answered(self._list)

    def do_POST(self) -> None:
        """Switch a fault on."""
        self._answered(self._add)

    def do_DELETE(self) -> None:
        """Switch faults off."""
        self._answered(self._remove)

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """Log nothing: what is asked is seen in its effect."""

    def _answered(self, call: Any) -> None:
        try:
            told = self._require_local()
            status, body = call(told)
        except _RefusedError as error:
            status, body = error.status, {"error": str(error)}
        except (ValueError, RuntimeError) as error:
            status, body = 400, {"error": str(error)}
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _require_local(self) -> bytes:
        """The body of a request that no page of a browser has sent; raises _RefusedError."""
        try:
            length = int(self.headers.get("Content-Length", 0))
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise _RefusedError(413, f"expected a Content-Length of {MOST_BYTES} at most")
        told = self.rfile.read(length)
        if self.headers.get("Host") not in self.server.hosts:
            raise _RefusedError(403, f"expected the Host {' or '.join(sorted(self.server.hosts))}")
        if self.headers.get("Origin") is not None:
            raise _RefusedError(403, "pages of a browser are refused")
        return told

    def _list(self, _: bytes) -> tuple[int, object]:
        if self.path != PATH:
            raise _RefusedError(404, f"expected {PATH}")
        return 200, {"faults": [described(fault) for fault in self.server.faults]}

    def _add(self, told: bytes) -> tuple[int, object]:
        if self.path != PATH:
            raise _RefusedError(404, f"expected {PATH}")
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(415, "expected Content-Type: application/json")
        try:
            fault = json.loads(told)
        except (ValueError, RecursionError):
            raise _RefusedError(400, "expected JSON") from None
        if not isinstance(fault, dict):
            raise _RefusedError(400, 'expected an object, such as {"of": "produce", "do": "disconnect"}')
        return 201, described(switch_on(self.server.faults, fault))

    def _remove(self, _: bytes) -> tuple[int, object]:
        faults = self.server.faults
        if self.path == PATH:
            removed = list(faults)
            faults.stop()
        else:
            removed = [each for each in faults if self.path == f"{PATH}/{each.number}"]
            if not removed:
                raise _RefusedError(404, f"there is no fault {self.path.removeprefix(PATH).strip('/')}")
            removed[0].stop()
        return 200, {"faults": [described(fault) for fault in removed]}
