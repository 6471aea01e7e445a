"""The REST interface of a registry, on Starlette.

Interface: Confluent's Schema Registry. Left out are contexts, other than the default one, and what Confluent
has beside schemas: data contracts (`metadata`, `ruleSet`), encryption, associations. What a request has of
them is refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkapy.registry import errors
from kafkapy.registry.formats import json_text
from kafkapy.registry.registry import LEVELS, Asked, Registry
from kafkapy.registry.schema import AVRO, KINDS, Reference, Schema, Version

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 4 * 1024 * 1024
"""A body may have so many bytes."""
_MOST_BODIES: Final = 40
"""So many requests other than GET run at once: they may wait for the cluster, and reads shall not."""

_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_BODY_TYPES: Final = (*_TYPES, "application/octet-stream")
_ALL_CONTEXTS: Final = ":*:"
_SERIALIZED: Final = "serialized"


@dataclass(frozen=True)
class Call:
    """A request, as far as answers depend on it."""

    registry: Registry
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    @property
    def subject(self) -> str:
        return self.path["subject"]

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, str(default))
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
            raise HTTPException(404)  # so answers JAX-RS
        return int(text)

    def page(self, items: list[Any]) -> list[Any]:
        """The items from `offset`, as many as `limit` says."""
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return items[offset:] if limit < 0 else items[offset : offset + limit]

    def asked(self) -> Asked:
        """The schema of the body."""
        known = {
            "schema",
            "schemaType",
            "references",
            "id",
            "version",
            "metadata",
            "ruleSet",
            "schemaTagsToAdd",
        }
        body = _object(self.body, known | {"schemaTagsToRemove", "propagateSchemaTags", "subject", "guid"})
        for name in ("metadata", "ruleSet", "schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"):
            if body.get(name):
                raise errors.unprocessable(f"{name} is not kept by this registry")
        text, kind = body.get("schema"), body.get("schemaType") or AVRO
        if not isinstance(text, str) or not isinstance(kind, str):
            raise errors.unprocessable("schema and schemaType are expected to be text")
        references = body.get("references") or []
        if not isinstance(references, list):
            raise errors.unprocessable("references are expected to be a list")
        schema = Schema(kind.upper(), text, tuple(map(_reference, references)))
        schema_id, version = (_positive(body, name) for name in ("id", "version"))
        return Asked(schema, schema_id, version, self.flag("normalize"))


# GET, POST and DELETE of schemas


def _register(call: Call) -> Any:
    version = call.registry.register(call.subject, call.asked())
    return {"id": version.id, "version": version.version, **version.schema.to_json()}


def _lookup(call: Call) -> Any:
    return _shown(call, call.registry.lookup(call.subject, call.asked(), deleted=call.flag("deleted")))


def _subjects(call: Call) -> Any:
    prefix = call.query.get("subjectPrefix", "").removeprefix(_ALL_CONTEXTS)
    found = []
    for name in call.registry.subjects.names():
        live = bool(call.registry.subjects.versions(name))
        wanted = not live if call.flag("deletedOnly") else live or call.flag("deleted")
        if wanted and name.startswith(prefix):
            found.append(name)
    return call.page(found)


def _versions(call: Call) -> Any:
    flags = {"deleted": call.flag("deleted"), "deleted_only": call.flag("deletedOnly")}
    return call.page(call.registry.versions(call.subject, **flags))


def _version(call: Call) -> Version:
    return call.registry.version(call.subject, call.path["version"], deleted=call.flag("deleted"))


def _one_version(call: Call) -> Any:
    return _shown(call, _version(call))


def _schema_of_version(call: Call) -> Any:
    return Raw(_text(call, _version(call)))


def _referenced_by(call: Call) -> Any:
    version = call.registry.version(call.subject, call.path["version"], deleted=True)
    found = call.registry.subjects.referring(version.subject, version.version, deleted=call.flag("deleted"))
    return call.page(sorted({each.id for each in found}))


def _delete_subject(call: Call) -> Any:
    return call.registry.delete_subject(call.subject, permanent=call.flag("permanent"))


def _delete_version(call: Call) -> Any:
    return call.registry.delete_version(call.subject, call.path["version"], permanent=call.flag("permanent"))


def _of_id(call: Call, *, deleted: bool) -> list[Version]:
    text = call.path["id"]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise HTTPException(404)
    return call.registry.by_id(int(text), deleted=deleted)


def _schema_of_id(call: Call) -> Any:
    (version, *_) = _of_id(call, deleted=True)
    schema = version.schema
    shown = {**schema.to_json(), "schema": _text(call, version), **version.further}
    if call.flag("fetchMaxId"):
        shown["maxId"] = call.registry.subjects.next_id() - 1
    return shown


def _text_of_id(call: Call) -> Any:
    return Raw(_text(call, _of_id(call, deleted=True)[0]))


def _subjects_of_id(call: Call) -> Any:
    found = _of_id(call, deleted=call.flag("deleted"))
    wanted = call.query.get("subject")
    return call.page(sorted({each.subject for each in found if wanted in (None, each.subject)}))


def _versions_of_id(call: Call) -> Any:
    found = _of_id(call, deleted=call.flag("deleted"))
    wanted = call.query.get("subject")
    places = [{"subject": each.subject, "version": each.version} for each in found]
    return call.page([place for place in places if wanted in (None, place["subject"])])


def _schemas(call: Call) -> Any:
    prefix, found = call.query.get("subjectPrefix", "").removeprefix(_ALL_CONTEXTS), []
    for name in call.registry.subjects.names():
        if name.startswith(prefix):
            versions = call.registry.subjects.versions(name, deleted=call.flag("deleted"))
            found += versions[-1:] if call.flag("latestOnly") else versions
    return call.page([version.to_json() for version in found])


def _types(call: Call) -> Any:
    return KINDS


# Compatibility, settings, modes


def _compatibility(call: Call) -> Any:
    try:
        reasons = call.registry.compare(call.subject, call.path.get("version"), call.asked())
    except errors.RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not call.flag("verbose"):
            raise
        reasons = [error.message]
    shown: dict[str, Any] = {"is_compatible": not reasons}
    if call.flag("verbose"):
        shown["messages"] = reasons
    return shown


def _config(call: Call) -> Any:
    return call.registry.config(call.path.get("subject"), default_to_global=call.flag("defaultToGlobal"))


def _set_config(call: Call) -> Any:
    body = _object(call.body, None)
    given = {name: value for name, value in body.items() if value is not None}
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name == "compatibility":
            if not isinstance(value, str) or value.upper() not in LEVELS:
                raise errors.invalid_level()
            changes["compatibilityLevel"] = value.upper()
        elif name == "normalize" and isinstance(value, bool):
            changes[name] = value
        else:
            raise errors.unprocessable(f"{name} is not kept by this registry")
    if not changes:
        raise errors.invalid_level()
    call.registry.set_config(call.path.get("subject"), changes)
    return {**given, **({"compatibility": changes["compatibilityLevel"]} if "compatibility" in given else {})}


def _delete_config(call: Call) -> Any:
    return call.registry.delete_config(call.path.get("subject"))


def _mode(call: Call) -> Any:
    default = call.flag("defaultToGlobal")
    return {"mode": call.registry.shown_mode(call.path.get("subject"), default_to_global=default)}


def _set_mode(call: Call) -> Any:
    mode = _object(call.body, {"mode"}).get("mode")
    if not isinstance(mode, str):
        raise errors.invalid_mode()
    call.registry.set_mode(call.path.get("subject"), mode.upper(), force=call.flag("force"))
    return {"mode": mode.upper()}


def _delete_mode(call: Call) -> Any:
    return {"mode": call.registry.delete_mode(call.path.get("subject"))}


# What clients ask of any registry


def _root(call: Call) -> Any:
    return {}


def _contexts(call: Call) -> Any:
    return call.page(["."])


_ROUTES: Final[tuple[tuple[str, str, Callable[[Call], Any]], ...]] = (
    ("GET", "/", _root),
    ("GET", "/contexts", _contexts),
    ("GET", "/schemas", _schemas),
    ("GET", "/schemas/types", _types),
    ("GET", "/schemas/ids/{id}", _schema_of_id),
    ("GET", "/schemas/ids/{id}/schema", _text_of_id),
    ("GET", "/schemas/ids/{id}/subjects", _subjects_of_id),
    ("GET", "/schemas/ids/{id}/versions", _versions_of_id),
    ("GET", "/subjects", _subjects),
    ("POST", "/subjects/{subject}", _lookup),
    ("DELETE", "/subjects/{subject}", _delete_subject),
    ("GET", "/subjects/{subject}/versions", _versions),
    ("POST", "/subjects/{subject}/versions", _register),
    ("GET", "/subjects/{subject}/versions/{version}", _one_version),
    ("DELETE", "/subjects/{subject}/versions/{version}", _delete_version),
    ("GET", "/subjects/{subject}/versions/{version}/schema", _schema_of_version),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", _referenced_by),
    ("POST", "/compatibility/subjects/{subject}/versions", _compatibility),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", _compatibility),
    ("GET", "/config", _config),
    ("PUT", "/config", _set_config),
    ("DELETE", "/config", _delete_config),
    ("GET", "/config/{subject}", _config),
    ("PUT", "/config/{subject}", _set_config),
    ("DELETE", "/config/{subject}", _delete_config),
    ("GET", "/mode", _mode),
    ("PUT", "/mode", _set_mode),
    ("DELETE", "/mode", _delete_mode),
    ("GET", "/mode/{subject}", _mode),
    ("PUT", "/mode/{subject}", _set_mode),
    ("DELETE", "/mode/{subject}", _delete_mode),
)


@dataclass(frozen=True)
class Raw:
    """An answer that is JSON text, or Protobuf, already."""

    text: str


def rest(registry: Registry) -> ASGIApp:
    """The application that serves a registry."""
    bodies = CapacityLimiter(_MOST_BODIES)
    routes = [
        Route(path, _endpoint(registry, answer, None if method == "GET" else bodies), methods=[method])
        for method, path, answer in _ROUTES
    ]
    handlers: Any = {errors.RegistryError: _registry_error, HTTPException: _http_error}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False

    async def with_raw_path(scope: Scope, receive: Receive, send: Send) -> None:
        # A subject may have a slash, which is %2F in a path.
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await app(scope, receive, send)

    return with_raw_path


def _endpoint(
    registry: Registry, answer: Callable[[Call], Any], limiter: CapacityLimiter | None
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        content_type = _accepted(request)
        body = await _body(request) if request.method in ("POST", "PUT") else None
        # In a thread: answers may need the cluster, or a compiler, and large bodies time.
        try:
            return await to_thread.run_sync(answered, request, body, content_type, limiter=limiter)
        except (errors.RegistryError, HTTPException):
            raise
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            raise HTTPException(500) from None

    def answered(request: Request, body: bytes | None, content_type: str) -> Response:
        path = {name: _unquoted(value) for name, value in request.path_params.items()}
        content = answer(Call(registry, path, request.query_params, None if body is None else _json(body)))
        return _response(content, 200, content_type)

    return endpoint


def _accepted(request: Request) -> str:
    """The type of the answer that a client takes; raises HTTPException."""
    accepted = [
        each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")
    ]
    if accepted == [""] or any(each == "application/*" or each.startswith("*") for each in accepted):
        return _TYPES[0]
    found = next((each for each in _TYPES if each in accepted), None)
    if found is None:
        raise HTTPException(406)
    return found


async def _body(request: Request) -> bytes:
    """The body of a request; raises RegistryError or HTTPException."""
    given = request.headers.get("content-type", _TYPES[0]).partition(";")[0].strip().lower()
    if given not in _BODY_TYPES:
        raise HTTPException(415)
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise errors.too_large(f"a request may have {MOST_BYTES} bytes")
    return bytes(content)


def _unquoted(part: str) -> str:
    """A part of a path; raises HTTPException for one that is not in UTF-8."""
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise HTTPException(400, "the path is not in UTF-8") from None


def _json(body: bytes) -> Any:
    """The JSON of a body; raises HTTPException."""
    try:
        return json_text.loaded(body.decode("utf-8"))
    except ValueError as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from None


def _registry_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.RegistryError)
    return _response({"error_code": error.code, "message": error.message}, error.status, _TYPES[0])


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"HTTP {error.status_code} {error.detail}"
    return _response({"error_code": error.status_code, "message": message}, error.status_code, _TYPES[0])


def _response(content: Any, status: int, content_type: str) -> Response:
    text = content.text if isinstance(content, Raw) else json.dumps(content, separators=(",", ":"))
    return Response(text, status, media_type=content_type)


def _shown(call: Call, version: Version) -> dict[str, Any]:
    return {**version.to_json(), "schema": _text(call, version)}


def _text(call: Call, version: Version) -> str:
    serialized = call.query.get("format") == _SERIALIZED
    return call.registry.serialized(version) if serialized else version.schema.text


def _object(body: Any, known: set[str] | None) -> dict[str, Any]:
    """A body that is an object with known names only; raises RegistryError."""
    if not isinstance(body, dict):
        raise errors.unprocessable("the body is expected to be an object")
    for name in body:
        if known is not None and name not in known:
            raise errors.unprocessable(f"Unrecognized field: {name}")
    return body


def _reference(given: Any) -> Reference:
    fields = _object(given, {"name", "subject", "version"})
    name, subject, version = (fields.get(each) for each in ("name", "subject", "version"))
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        raise errors.unprocessable("a reference has a name, a subject and the number of a version")
    return Reference(name, subject, version)


def _positive(body: Mapping[str, Any], name: str) -> int | None:
    """A number of the body; 0 and -1 stand for none, as Confluent's clients send it."""
    value = body.get(name)
    if value is None or value in (0, -1):
        return None
    if type(value) is not int or not 0 < value < 2**31:
        raise errors.unprocessable(f"{name} is expected to be a number")
    return value
