"""A schema registry for tests, which answers from a dictionary and notes requests."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SchemaRegistry:
    """`answers` maps paths to JSON values, or to the status of an error."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.tokens: list[str] = []
        self.url = ""

    def register(self, schema_id: int, schema: Any, kind: str | None = None, **further: Any) -> None:
        answer = {"schema": json.dumps(schema), **({"schemaType": kind} if kind else {}), **further}
        self.answers[f"/schemas/ids/{schema_id}"] = answer

    def register_latest(self, subject: str, text: str, kind: str, **further: Any) -> None:
        """The newest schema of a subject, by its text."""
        answer = {"subject": subject, "version": 1, "id": 1, "schema": text, "schemaType": kind, **further}
        self.answers[f"/subjects/{subject}/versions/latest"] = answer
        self.answers[f"/subjects/{subject}/versions/1"] = answer


@contextlib.contextmanager
def running_registry(context: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    """It serves https with `context`, and is the issuer of tokens at /token."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            registry.tokens.append(f"{self.headers['Authorization']} {asked}")
            self._answer(registry.answers.get(self.path, 404))

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            registry.asked.append(path)
            registry.logins.append(self.headers["Authorization"])
            self._answer(registry.answers.get(path, 404))

        def _answer(self, answer: Any) -> None:
            body = b"{}" if isinstance(answer, int) else json.dumps(answer).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    registry.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
