"""A schema registry for tests, which answers from a dictionary and counts requests."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SchemaRegistry:
    """`answers` maps paths to JSON values, or to the status of an error."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"/schemas/types": ["AVRO", "JSON", "PROTOBUF"]}
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.url = ""

    def register(self, schema_id: int, schema: Any, kind: str | None = None, **further: Any) -> None:
        answer = {"schema": json.dumps(schema), **({"schemaType": kind} if kind else {}), **further}
        self.answers[f"/schemas/ids/{schema_id}"] = answer


@contextlib.contextmanager
def running_registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.logins.append(self.headers["Authorization"])
            answer = registry.answers.get(self.path, 404)
            body = b"{}" if isinstance(answer, int) else json.dumps(answer).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
