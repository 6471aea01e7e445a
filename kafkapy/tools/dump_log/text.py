"""Facts as the lines that kafka-dump-log prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kafkapy.protocol.text import decode_as_java
from kafkapy.tools.dump_log.fact import Fact, Values

_RECORD = "| "


def text(fact: Fact) -> str:
    """Return one line, without its line end."""
    write = _WRITERS.get(fact.kind)
    return _pairs(fact.values) if write is None else write(fact.values)


def _pairs(values: Values) -> str:
    return " ".join(f"{name}: {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bytes):
        return decode_as_java(value)
    return str(value)


def _optional(value: int | None) -> str:
    """Return a number as Java prints an OptionalLong, and so does kafka-dump-log."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _batch(values: Values) -> str:
    values = dict(values)
    if "deleteHorizonMs" in values:
        values["deleteHorizonMs"] = _optional(values["deleteHorizonMs"])
    return _pairs(_with_timestamp(values))


def _with_timestamp(values: Values) -> Values:
    """Merge `timestampType: CreateTime timestamp: 1` into `CreateTime: 1`."""
    shown: Values = {}
    for name, value in values.items():
        if name == "timestampType":
            shown[value] = values["timestamp"]
        elif name != "timestamp":
            shown[name] = value
    return shown


def _record(values: Values) -> str:
    shown = _with_timestamp(values)
    shown.pop("headers", None)
    if "headerKeys" in shown:
        shown["headerKeys"] = f"[{','.join(shown['headerKeys'])}]"
    return _RECORD + _pairs(shown)


def _producer(values: Values) -> str:
    return _pairs(values | {"currentTxnFirstOffset": _optional(values["currentTxnFirstOffset"])})


def _mismatch(values: Values) -> str:
    return "Mismatch: " + _pairs(values)


def _error(values: Values) -> str:
    return str(values["error"])


def _gap(values: Values) -> str:
    return f"Non-consecutive offsets: {values['offset']} is followed by {values['next']}"


_WRITERS: dict[str, Callable[[Values], str]] = {
    "file": lambda values: f"Dumping {values['file']}",
    "segment": lambda values: f"Log starting offset: {values['startOffset']}",
    "kraftSnapshot": lambda values: f"Snapshot end offset: {values['endOffset']}, epoch: {values['epoch']}",
    "bootstrap": lambda _: "KRaft bootstrap snapshot",
    "empty": lambda _: "is empty",
    "batch": _batch,
    "record": _record,
    "producer": _producer,
    "mismatch": _mismatch,
    "error": _error,
    "gap": _gap,
    "sane": lambda _: "passed sanity check",
}
