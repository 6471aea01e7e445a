"""Writing one record: a new one, or one that is there, as it is or edited."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final
from urllib.parse import urlencode

from kafkapy.commands.decoding.decoder import HEAD
from kafkapy.errors import UserError
from kafkapy.page.call import MOST_FORM, SECRET, Answer, Call, whole
from kafkapy.page.cluster.producing import write
from kafkapy.page.cluster.records import Found
from kafkapy.page.cluster.topics import Topic
from kafkapy.page.rendering import part
from kafkapy.page.views.messages import record
from kafkapy.protocol.records import Record

_FORMS: Final = ("text", "base64", "null")
_SCHEMA: Final = "schema"
"""One more form, with a schema registry: JSON that is written by the schema of an id."""
_TIMEOUT: Final = 10.0


def form(call: Call) -> Answer:
    """The form; with `partition` and `offset`, it has what that record has."""
    topic = call.sources.topics.topic(call.path["topic"])
    if not call.text("offset"):
        return _form(call, topic, _fields(call, Record(value=b""), ""))
    partition, offset = call.number("partition", 0), call.number("offset", 0)
    found = record(call, topic, partition, offset)
    if found.marker is not None:
        raise UserError(f"at offset {offset} is a {found.marker}: only brokers write these")
    return _form(call, topic, _editable(call, found), offset)


def send(call: Call) -> Answer:
    topic = call.sources.topics.topic(call.path["topic"])
    fields = {name: call.form.get(name, "") for name in _fields(call, Record(), "")}
    try:
        content = Record(
            key=_content(call, fields, "key"),
            value=_content(call, fields, "value"),
            headers=_headers(fields["headers"]),
        )
        partition = (
            None if not fields["partition"].strip() else whole(fields["partition"].strip(), "partition", 0)
        )
        place, offset = write(call.sources.wire, topic, content, partition, _TIMEOUT)
    except UserError as error:
        return _form(call, topic, fields, problem=str(error))
    return Answer(location=f"/topics/{part(topic.name)}/{place.partition}/{offset}?written=1")


def _form(
    call: Call, topic: Topic, fields: dict[str, str], offset: int | None = None, problem: str = ""
) -> Answer:
    values: dict[str, Any] = {
        "title": f"Produce to {topic.name}",
        "topic": topic,
        "fields": fields,
        "forms": (*_FORMS, _SCHEMA) if call.sources.decoder.has_registry else _FORMS,
        "offset": offset,
        "problem": problem,
    }
    return Answer("produce.html", values, 400 if problem else 200)


def _editable(call: Call, found: Found) -> dict[str, str]:
    """The fields of the form for a record; raises UserError if the page would not take it back."""
    content, place = found.record, found.place
    size = len(content.key or b"") + len(content.value or b"")
    if size <= MOST_FORM:
        fields = _fields(call, content, str(place.partition))
        as_sent = {name: text.replace("\n", "\r\n") for name, text in fields.items()}
        size = len(urlencode({SECRET: call.sources.secret, **as_sent}))
    if size > MOST_FORM:
        raise UserError(
            f"it is too large for a form: take kafkapy consume {place.topic} --partition {place.partition}"
            f" --offset {found.offset} --max-messages 1 --format json > FILE, edit FILE, and send it by"
            f" kafkapy produce {place.topic} --input json --file FILE"
        )
    return fields


def _fields(call: Call, content: Record, partition: str) -> dict[str, str]:
    headers = [{"key": name, "value": _json(each)} for name, each in content.headers]
    return {
        "partition": partition,
        **_part(call, "key", content.key),
        **_part(call, "value", content.value),
        "headers": json.dumps(headers, ensure_ascii=False, indent=1) if headers else "",
    }


def _part(call: Call, name: str, data: bytes | None) -> dict[str, str]:
    """The fields of a key or a value."""
    text, form = _written(data)
    schema = ""
    if data is not None and (found := _by_schema(call, data)) is not None:
        (text, schema), form = found, _SCHEMA
    return {name: text, f"{name}_form": form, f"{name}_schema": schema}


def _by_schema(call: Call, data: bytes) -> tuple[str, str] | None:
    """Bytes as JSON, and their schema; None if these would not give the same bytes."""
    decoder = call.sources.decoder
    try:
        found = decoder.by_schema(data)
        if found is None:
            return None
        if found.kind == "json":
            text, form = _written(data[HEAD:])
            if form != "text":
                return None
        else:
            text = json.dumps(found.value, ensure_ascii=False, indent=2)
        if decoder.encoded(text, found.schema_id, found.message) != data:
            return None
    except (UserError, ValueError):
        return None
    return text, f"{found.schema_id} {found.message}".strip()


def _written(data: bytes | None) -> tuple[str, str]:
    if data is None:
        return "", "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    # A browser sends line breaks as CR LF, whatever they were, and cannot send some characters at all.
    if any(ord(char) < 0x20 and char not in "\t\n" for char in text):
        return base64.b64encode(data).decode(), "base64"
    return text, "text"


def _json(data: bytes | None) -> Any:
    text, kind = _written(data)
    return None if kind == "null" else {"base64": text} if kind == "base64" else text


def _content(call: Call, fields: dict[str, str], name: str) -> bytes | None:
    """A key or a value of the form; raises UserError."""
    text, form = fields[name], fields[f"{name}_form"]
    if form != _SCHEMA or not call.sources.decoder.has_registry:
        return _bytes(text, form, name)
    number, _, message = fields[f"{name}_schema"].strip().partition(" ")
    if not number:
        raise UserError(f"{name}: give the id of the schema")
    schema = whole(number, f"{name}: schema id", 0)
    try:
        return call.sources.decoder.encoded(text.replace("\r\n", "\n"), schema, message.strip())
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def _bytes(text: str, kind: str, name: str) -> bytes | None:
    match kind:
        case "null":
            if text:
                raise UserError(f"{name}: null has no text: remove it, or choose another form")
            return None
        case "text":
            return text.replace("\r\n", "\n").encode()
        case "base64":
            try:
                return base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError):
                raise UserError(f"{name}: the base64 cannot be decoded") from None
        case _:
            raise UserError(f"{name}: expected one of {', '.join(_FORMS)}")


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    if not text.strip():
        return []
    try:
        content = json.loads(text)
        pairs = (
            content.items()
            if isinstance(content, dict)
            else [(each["key"], each["value"]) for each in content]
        )
        return [(_name(name), _header(name, value)) for name, value in pairs]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            'headers: expected JSON such as {"trace": "17"} or [{"key": "trace", "value": "17"}]'
        ) from None


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _header(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        return _bytes(value["base64"], "base64", f"header {name}")
    raise TypeError
