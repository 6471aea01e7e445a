"""Schemas of a registry, by the id that serializers write before a key or a value.

0x00 | schema id int32 | Avro, JSON, or the indexes of a Protobuf message and the message
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.error import URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from kafkapy.errors import UserError
from kafkapy.page.decoding.avro import AvroSchema

_HEAD: Final = 5
_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 10.0
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_SCHEMAS: Final = 500
_MOST_REFERENCES: Final = 50


class Decoded(NamedTuple):
    """A value by its schema."""

    kind: str
    schema_id: int
    value: Any


class _Known(NamedTuple):
    kind: str
    decode: Callable[[bytes], Any]


class Schemas:
    """Asks a registry for schemas, and keeps them.

    Args:
        url: `http://host:port`; user and password may be in it.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"--schema-registry {url}: expected http://HOST:PORT")
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._headers = (
            {} if parts.username is None else {"Authorization": "Basic " + b64encode(login.encode()).decode()}
        )
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._failed: dict[int, tuple[float, str]] = {}
        self._lock: Final = threading.Lock()

    def decode(self, data: bytes) -> Decoded | None:
        """What a key or value says by its schema; None if it names none.

        Raises:
            ValueError: it names one, and cannot be decoded by it.
        """
        if len(data) < _HEAD or data[0]:
            return None
        number = int.from_bytes(data[1:_HEAD], "big")
        known = self._schema(number)
        return Decoded(known.kind, number, known.decode(data[_HEAD:]))

    def _schema(self, number: int) -> _Known:
        with self._lock:
            if number in self._known:
                self._known.move_to_end(number)
                return self._known[number]
            at, reason = self._failed.get(number, (0.0, ""))
            if reason and time.monotonic() - at < _RETRY_SECONDS:
                raise ValueError(reason)
            try:
                known = self._read(number)
            except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
                reason = f"schema {number}: {error}"
                if len(self._failed) >= _MOST_SCHEMAS:
                    self._failed.clear()
                self._failed[number] = (time.monotonic(), reason)
                raise ValueError(reason) from None
            self._known[number] = known
            if len(self._known) > _MOST_SCHEMAS:
                self._known.popitem(last=False)
            return known

    def _read(self, number: int) -> _Known:
        found = self._get(f"/schemas/ids/{number}")
        kind, text = found.get("schemaType") or "AVRO", found["schema"]
        if kind == "JSON":
            return _Known("json", _json)
        if kind == "AVRO":
            references = [json.loads(each) for each in self._references(found)]
            return _Known("avro", AvroSchema(json.loads(text), references).decode)
        raise ValueError(f"its kind, {kind}, is shown as bytes")

    def _references(self, schema: Any) -> list[str]:
        """The schemas that one refers to, those first that others need."""
        texts: dict[tuple[str, int], str] = {}

        def add(referring: Any) -> None:
            for each in referring.get("references") or ():
                place = (str(each["subject"]), int(each["version"]))
                if place in texts:
                    continue
                if len(texts) >= _MOST_REFERENCES:
                    raise ValueError("it refers to too many others")
                texts[place] = ""
                found = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
                add(found)
                # It is after those that it needs.
                texts[place] = texts.pop(place) or found["schema"]

        add(schema)
        return list(texts.values())

    def _get(self, path: str) -> Any:
        try:
            with urlopen(Request(self._url + path, headers=self._headers), timeout=_SECONDS) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except (URLError, OSError) as error:
            raise ValueError(f"the registry says: {getattr(error, 'reason', error)}") from None
        if len(content) > _MOST_BYTES:
            raise ValueError("the registry's answer is too long")
        return json.loads(content)


def _json(data: bytes) -> Any:
    return json.loads(data)
