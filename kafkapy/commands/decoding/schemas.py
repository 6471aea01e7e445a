"""Schemas of a registry, by the id that serializers write before a key or a value."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from kafkapy.errors import UserError

_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 10.0
"""A schema that could not be had is asked for again after so long."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of an answer of the registry."""
_MOST_SCHEMAS: Final = 500
_MOST_FAILED: Final = 1000
_MOST_REFERENCES: Final = 50


class Schema(NamedTuple):
    """A schema, as far as decoding needs it."""

    kind: str
    """avro, json or protobuf."""
    decode: Callable[[bytes], Any]
    """Raises ValueError, KeyError, TypeError or RecursionError."""
    encode: Callable[[str, str], bytes]
    """The reverse: JSON as bytes, for Protobuf with the name of the message; it raises ValueError."""
    message: Callable[[bytes], str] = lambda data: ""
    """The name of the message of Protobuf that bytes are, if it is not the first one of its schema."""


class _Failed(NamedTuple):
    at: float
    kind: type[UserError] | type[ValueError]
    reason: str


class Schemas:
    """Asks a registry for schemas, and keeps them; any thread may use it.

    Args:
        url: such as `http://localhost:8081`; a user and a password may be in it, percent-encoded.
        clock: counts seconds.
        patience: how many seconds the registry has for an answer.
        most: how many schemas are kept; the one that was not used for longest goes first.

    Raises:
        UserError: the address is none.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _SECONDS,
        most: int = _MOST_SCHEMAS,
    ) -> None:
        self._clock, self._patience, self._most = clock, patience, most
        try:
            parts = urlsplit(url)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one:
            raise UserError(f"--schema-registry {url.rpartition('@')[2]}: expected http://HOST:PORT")
        login, _, address = parts.netloc.rpartition("@")
        self._url = f"{parts.scheme}://{address}{parts.path.rstrip('/')}"
        self._headers = {}
        if login:
            user, _, password = login.partition(":")
            encoded = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._known: OrderedDict[int, Schema] = OrderedDict()
        self._failed: dict[int, _Failed] = {}
        """Bytes that only look like a value with a schema may be in all records of a topic."""
        self._lock: Final = threading.Lock()
        """Of what is known; nobody waits while it is held."""
        self._asking: Final = threading.Lock()
        self._silent: _Failed | None = None
        """Records may name any number of schemas: a registry is not waited for by each of them."""

    def schema(self, number: int) -> Schema:
        """The schema of an id.

        Raises:
            ValueError: there is none, or it cannot be had.
            UserError: a package of the extra `registry` is missing.
        """
        if (known := self._remembered(number)) is not None:
            return known
        with self._asking:
            # Another thread may have asked meanwhile.
            if (known := self._remembered(number)) is not None:
                return known
            try:
                with _failures():
                    known = self._read(number)
            except (UserError, ValueError) as error:
                kind = UserError if isinstance(error, UserError) else ValueError
                with self._lock:
                    if len(self._failed) == _MOST_FAILED:
                        self._failed.clear()
                    self._failed[number] = _Failed(self._clock(), kind, str(error))
                raise kind(str(error)) from None
            with self._lock:
                self._failed.pop(number, None)
                self._known[number] = known
                if len(self._known) > self._most:
                    self._known.popitem(last=False)
            return known

    def _remembered(self, number: int) -> Schema | None:
        with self._lock:
            if number in self._known:
                self._known.move_to_end(number)
                return self._known[number]
            failed = self._failed.get(number)
        if failed is not None and self._clock() - failed.at < _RETRY_SECONDS:
            raise failed.kind(failed.reason)
        return None

    def _read(self, number: int) -> Schema:
        found = self._get(f"/schemas/ids/{number}")
        kind, text = found.get("schemaType") or "AVRO", str(found["schema"])
        references: dict[str, str] = {}
        if kind == "JSON":
            # Values are shown without a look at the schema: its references are asked for by a write.
            return Schema("json", json.loads, lambda value, _: self._as_json(value, text, found))
        if kind not in ("AVRO", "PROTOBUF"):
            raise ValueError(f"its kind, {kind}, is none of AVRO, JSON and PROTOBUF")
        from kafkapy.registry.formats import parsed

        self._add_references(found, references)
        tree = parsed(kind, text, tuple(references.items())).tree
        if kind == "AVRO":
            from kafkapy.commands.decoding import avro, avro_writing

            write = avro_writing.encoding(tree)
            return Schema("avro", avro.decoding(tree), lambda value, _: write(json.loads(value)))
        from kafkapy.commands.decoding.protobuf import Messages

        files: list[Any] = []
        for name in references:
            before = tuple(references.items())[: len(files)]
            files.append((name, parsed(kind, references[name], before).tree))
        messages = Messages(tree, files)
        return Schema("protobuf", messages.decoded, messages.encoded, messages.name)

    def _as_json(self, value: str, text: str, schema: Any) -> bytes:
        """JSON that fits a JSON Schema, as it is written; raises ValueError, UserError."""
        references: dict[str, str] = {}
        with _failures():
            from kafkapy.registry.formats import json_format

            self._add_references(schema, references)
            json_format.validation(text, tuple(references.items()))(json.loads(value))
        return value.encode()

    def _add_references(self, schema: Any, found: dict[str, str]) -> None:
        """Add the schemas that one refers to, by name; those first that others need."""
        for each in schema.get("references") or ():
            name = str(each["name"])
            if name in found:
                continue
            if len(found) == _MOST_REFERENCES:
                raise ValueError(f"it refers to more than {_MOST_REFERENCES} others")
            found[name] = ""
            subject = quote(str(each["subject"]), safe="")
            referred = self._get(f"/subjects/{subject}/versions/{int(each['version'])}")
            self._add_references(referred, found)
            del found[name]  # it comes after those that it needs
            found[name] = str(referred["schema"])

    def _get(self, path: str) -> Any:
        if self._silent is not None and self._clock() - self._silent.at < _RETRY_SECONDS:
            raise ValueError(self._silent.reason)
        try:
            with urlopen(Request(self._url + path, headers=self._headers), timeout=self._patience) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            raise ValueError(f"the registry says: {error.reason}") from None
        except (URLError, OSError) as error:
            reason = f"the registry cannot be reached: {getattr(error, 'reason', error)}"
            self._silent = _Failed(self._clock(), ValueError, reason)
            raise ValueError(reason) from None
        except HTTPException:
            raise ValueError("what answers at the registry's address is no HTTP server") from None
        if len(content) > _MOST_BYTES:
            raise ValueError("the registry's answer is too long")
        return json.loads(content)


@contextmanager
def _failures() -> Iterator[None]:
    """Tell what the registry's answers, and the packages that read them, may lack."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed: pip install '.[registry]' in a checkout") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the registry's answer has no schema") from None
