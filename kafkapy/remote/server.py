"""Faults, brokers and the clock by HTTP; on 127.0.0.1 only.

    GET    /faults              {"faults": [{"number": 1, "fault": "produce()…", "hits": 2, "asked": 2}]}
    POST   /faults              a fault as data (spoken.py); its answer, with status 201, describes it
    DELETE /faults              switches all of them off
    DELETE /faults/1            switches one off
    GET    /brokers             {"brokers": [{"broker": 1, "state": "running", "cut_off_from": []}]}
    POST   /brokers/1           {"do": "kill"}; its answer describes the broker as it is then
    …      /brokers/1/faults    as /faults, which is that of all brokers
    GET    /clock               {"now": "2026-11-30T08:00:00.000Z"}
    POST   /clock               {"advance": "7d"}; answered when all that was due in that time has happened

An error is {"error": "…"} with status 400, 404 for what is not there, 405 for a wrong method. Pages of a
browser are refused, wherever they are from: requests must name this host, come from no origin and bring JSON.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kafkapy.broker.core import StartError
from kafkapy.commands.units import milliseconds, time_text
from kafkapy.errors import UserError
from kafkapy.faults.fault import Fault
from kafkapy.faults.faults import Faults, near
from kafkapy.faults.spoken import described, switch_on
from kafkapy.remote.address import BROKERS, CLOCK, FAULTS, HOST
from kafkapy.remote.brokers import Brokers

MOST_BYTES: Final = 64 << 10
_MOST_OF_REST: Final = 64 << 20
"""The bytes that are read of a body that is refused."""
MOST_CONNECTIONS: Final = 64
"""At once; the next ones wait until others have ended."""
_QUEUE: Final = 128
"""How many may wait for that; the system has others try again."""
_SECONDS: Final = 30.0
"""How long a client may take with its request, or keep a connection that says nothing."""
_POLL_SECONDS: Final = 0.05
"""How often it looks whether it is to end."""
_MOST_MS: Final = 2**63 - 1
"""Longer durations are none that a clock can show either, and may be too large for a float."""
_METHODS: Final = ("do_GET", "do_POST", "do_DELETE", "do_PUT", "do_PATCH", "do_OPTIONS")
"""The methods that the base class finds; the path decides which of them it takes."""
_FAULTS: Final = re.compile(rf"(?:{BROKERS}/(?P<broker>\d{{1,10}}))?{FAULTS}(?:/(?P<number>\d{{1,10}}))?")
_BROKER: Final = re.compile(rf"{BROKERS}/(?P<broker>\d{{1,10}})")


class RemoteServer:
    """Serves brokers; a context manager.

    Raises:
        OSError: the port cannot be used.
    """

    def __init__(self, brokers: Brokers, port: int) -> None:
        """`port` 0 is a free one."""
        self._server = _Server(brokers, port)
        self.url = f"http://{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="kafkapy-remote", daemon=True
        )

    def __enter__(self) -> RemoteServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.is_ending = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = _QUEUE

    def __init__(self, brokers: Brokers, port: int) -> None:
        self.brokers = brokers
        super().__init__((HOST, port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        """What a request's Host may be: another name may be that of a page which rebinds its own."""
        self.is_ending = False
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, as soon as there are not too many."""
        while not self._places.acquire(timeout=_POLL_SECONDS):
            if self.is_ending:
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread for it
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room for another one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _RefusedError(Exception):
    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers or {}


_Answer = tuple[int, object]
_Call = Callable[[], _Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    server: _Server

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            return self._answer
        raise AttributeError(name)

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """Log nothing: what is asked is seen in its effect."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request, or one of another method, as all that is wrong."""
        self.close_connection = True
        self._send(code, {"error": message or self.responses[code][0]}, {"Connection": "close"})

    def _answer(self) -> None:
        headers: Mapping[str, str] = {}
        try:
            told = self._require_local()
            calls = self._calls(told)
            if self.command not in calls:
                allowed = ", ".join(calls)
                raise _RefusedError(405, f"{self.path} takes {allowed}", {"Allow": allowed})
            status, body = calls[self.command]()
        except _RefusedError as error:
            status, body, headers = error.status, {"error": str(error)}, error.headers
        except (ValueError, RuntimeError, UserError, StartError) as error:
            status, body = 400, {"error": str(error)}
        self._send(status, body, headers)
        if status == 413:
            self._read_rest()

    def _send(self, status: int, body: object, headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _require_local(self) -> bytes:
        """The body of a request that no page of a browser has sent; raises _RefusedError."""
        try:
            length = int(self.headers.get("Content-Length", 0))
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            why = f"expected a Content-Length of {MOST_BYTES} at most"
            raise _RefusedError(413, why, {"Connection": "close"})
        told = self.rfile.read(length)
        if self.headers.get("Host") not in self.server.hosts:
            raise _RefusedError(403, f"expected the Host {' or '.join(sorted(self.server.hosts))}")
        if self.headers.get("Origin") is not None:
            raise _RefusedError(403, "pages of a browser are refused")
        return told

    def _read_rest(self) -> None:
        """Read what a client still sends, which may read its answer only after that."""
        left = _MOST_OF_REST
        while left > 0 and (read := len(self.rfile.read1(MOST_BYTES))):
            left -= read

    def _calls(self, told: bytes) -> Mapping[str, _Call]:
        """What the methods of the path do; raises _RefusedError."""
        brokers = self.server.brokers
        if self.path == BROKERS:
            return {"GET": lambda: (200, {"brokers": [self._described(each) for each in brokers.numbers]})}
        if self.path == CLOCK:
            return {"GET": self._show_clock, "POST": lambda: self._advance(self._object(told))}
        if found := _BROKER.fullmatch(self.path):
            number = self._number(found["broker"])
            return {
                "GET": lambda: (200, self._described(number)),
                "POST": lambda: self._do(number, self._object(told)),
            }
        if found := _FAULTS.fullmatch(self.path):
            faults = brokers.faults(None if found["broker"] is None else self._number(found["broker"]))
            if found["number"] is not None:
                return {"DELETE": lambda: self._remove(faults, int(found["number"]))}
            return {
                "GET": lambda: (200, {"faults": [described(fault) for fault in faults]}),
                "POST": lambda: (201, described(switch_on(faults, self._object(told)))),
                "DELETE": lambda: self._remove_all(faults),
            }
        raise _RefusedError(404, f"expected {FAULTS}, {BROKERS} or {CLOCK}")

    def _object(self, told: bytes) -> dict[str, object]:
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(415, "expected Content-Type: application/json")
        try:
            value = json.loads(told)
        except (ValueError, RecursionError):
            raise _RefusedError(400, "expected JSON") from None
        if not isinstance(value, dict):
            raise _RefusedError(400, 'expected an object, such as {"of": "produce", "do": "disconnect"}')
        return value

    def _number(self, told: str) -> int:
        """The id of the broker that a path names."""
        numbers = self.server.brokers.numbers
        if int(told) not in numbers:
            raise _RefusedError(404, f"there is no broker {told}: expected {', '.join(map(str, numbers))}")
        return int(told)

    def _described(self, number: int) -> dict[str, object]:
        brokers = self.server.brokers
        return {
            "broker": number,
            "state": brokers.state(number),
            "cut_off_from": brokers.cut_off_from(number),
        }

    def _do(self, number: int, told: dict[str, object]) -> _Answer:
        action = told.pop("do", None)
        _require_no_other(told, ("do",))
        self.server.brokers.do(number, str(action))
        return 200, self._described(number)

    def _show_clock(self) -> _Answer:
        return 200, {"now": _told(self.server.brokers.clock.now())}

    def _advance(self, told: dict[str, object]) -> _Answer:
        text, members_stay = told.pop("advance", None), told.pop("members_stay", False)
        _require_no_other(told, ("advance", "members_stay"))
        if not isinstance(text, str):
            raise ValueError('advance: expected a duration such as "90s", "12h" or "7d"')
        if not isinstance(members_stay, bool):
            raise ValueError(f"members_stay={members_stay}: expected true or false")
        clock = self.server.brokers.clock
        clock.advance(seconds=min(milliseconds(text, "advance"), _MOST_MS) / 1000, members_stay=members_stay)
        return 200, {"now": _told(clock.now())}

    @staticmethod
    def _remove(faults: Faults[Fault], number: int) -> _Answer:
        for fault in faults:
            if fault.number == number:
                fault.stop()
                return 200, {"faults": [described(fault)]}
        raise _RefusedError(404, f"there is no fault {number}")

    @staticmethod
    def _remove_all(faults: Faults[Fault]) -> _Answer:
        removed = list(faults)
        faults.stop()
        return 200, {"faults": [described(fault) for fault in removed]}


def _require_no_other(left: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in left:
        raise ValueError(f"expected {' and '.join(known)}, and no {name}{near(name, known)}")


def _told(now: datetime) -> str | None:
    return time_text(round((now - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000))
