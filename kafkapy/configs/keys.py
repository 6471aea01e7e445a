"""The known settings: their types, defaults and valid values.

They are the rows of the tables in `kafkapy/configs`. A `ConfigKey` parses text into a typed value. It refuses
what Kafka's ConfigDef refuses (`ConfigDef.parseType`, `ConfigDef.Range`, `ValidString`, `ValidList`), with a
message of one line that names the setting, the value and what is allowed. Types: BOOLEAN bool, SHORT INT LONG
int, DOUBLE float, LIST tuple of str, STRING CLASS PASSWORD UNKNOWN str.

`listener.name.<listener>.<setting>` is a setting for one listener. Unknown names are settings too, as in
Kafka. Their values may be secrets, and are never shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

NULL: Final = "(null)"
_INTEGER_BITS: Final = {"SHORT": 16, "INT": 32, "LONG": 64}
RANGE: Final = re.compile(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?")
"""Valid values of a number in the tables: low, optionally high, optionally a value outside of the range."""
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
UNKNOWN: Final = "UNKNOWN"
"""The type of an unknown setting."""
_LISTENER_SETTING: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_MECHANISMS: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
"""Settings that a listener may have for each SASL mechanism; its name is then their prefix.

So may those of OAUTHBEARER, as in Apache Kafka's ConfigurationUtils.
"""
_CASE_INSENSITIVE: Final = "(case insensitive) "
_SOLE_DEFAULTS: Final = frozenset(
    {
        "offsets.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    }
)
_DURATION: Final = re.compile(
    r"by_duration:\+?P(?=.)(\+?[0-9]{1,18}D)?"
    r"(T(?=.)(\+?[0-9]{1,18}H)?(\+?[0-9]{1,18}M)?(\+?[0-9]{1,18}([.,][0-9]{0,9})?S)?)?",
    re.IGNORECASE,
)
"""A duration before now, in the ISO 8601 form of Java's Duration; by_duration:PnDTnHnMn.nS in the tables."""
_BY_DURATION: Final = "by_duration:"
_RELEASES: Final = "[0.8.0, "
"""The start of a list of metadata versions."""
_THROTTLED_REPLICAS: Final = re.compile(r"\*|\d+:\d+")


class ConfigError(ValueError):
    """A setting is unknown, wrong or not supported; the message is one line for the operator."""


class ConfigKey(NamedTuple):
    """One setting.

    `default` is a text, or None for null. `synonyms` are the broker settings that are its default.
    """

    name: str
    type: str
    default: str | None
    valid: str
    dynamic: bool
    sensitive: bool
    synonyms: tuple[str, ...]

    def parse(self, text: str | None) -> Any:
        """The typed value of `text`; raises ConfigError."""
        if text is None:
            return None
        value = self._typed(text)
        self._check(value, text)
        return value

    def _typed(self, text: str) -> Any:
        stripped = text.strip()
        if self.type == "BOOLEAN":
            lowered = stripped.lower()
            if lowered not in ("true", "false"):
                raise self._error(text, "true or false")
            return lowered == "true"
        if self.type in _INTEGER_BITS:
            bits = _INTEGER_BITS[self.type]
            if re.fullmatch(r"[+-]?[0-9]{1,20}", stripped) is None:
                raise self._error(text, f"a whole number of {bits} bits")
            number = int(stripped)
            if not -(1 << bits - 1) <= number < 1 << bits - 1:
                raise self._error(text, f"a whole number of {bits} bits")
            return number
        if self.type == "DOUBLE":
            # float() accepts 1_0, inf and nan as well.
            if _DECIMAL.fullmatch(stripped) is None or math.isinf(double := float(stripped)):
                raise self._error(text, "a number")
            return double
        if self.type == "LIST":
            return tuple(item.strip() for item in stripped.split(",")) if stripped else ()
        return stripped

    def _check(self, value: Any, text: str) -> None:
        valid = self.valid
        if not valid:
            return
        if bounds := RANGE.fullmatch(valid):
            low, high, other = bounds.groups()
            fits = float(low) <= value and (high is None or value <= float(high))
            if not fits and (other is None or value != int(other)):
                expected = f"at least {low}" if high is None else f"from {low} to {high}"
                raise self._error(text, expected if other is None else f"{expected}, or {other}")
        elif valid.startswith("[partitionId]"):
            if not all(_THROTTLED_REPLICAS.fullmatch(item) for item in value):
                raise self._error(text, valid)
        elif valid.startswith("non-empty"):
            if not value and self.default:
                raise self._error(text, valid)
        elif valid.startswith(_RELEASES):
            if not _is_release(value, valid[1:-1].split(", ")):
                raise self._error(text, "a version of Kafka, such as 3.9 or 2.8-IV1")
        elif valid.startswith(("[", _CASE_INSENSITIVE)):
            allowed = valid.removeprefix(_CASE_INSENSITIVE)[1:-1].split(", ")
            items = value if self.type == "LIST" else (value,)
            if valid.startswith(_CASE_INSENSITIVE):
                items = tuple(item.upper() for item in items)
            if any(item not in allowed and not _is_duration(item, allowed) for item in items):
                some = "a list of" if self.type == "LIST" else "one of"
                raise self._error(text, f"{some} {', '.join(allowed)}")

    def _error(self, text: str, expected: str) -> ConfigError:
        shown = "[hidden]" if self.sensitive else text
        return ConfigError(f"{self.name}={shown}: expected {expected}")


def _is_release(text: str, versions: list[str]) -> bool:
    """Whether `text` is a metadata version, or a release that has one.

    Source: Kafka's MetadataVersion.fromVersionString.
    """
    count = 3 if text.startswith("0.") else 2
    shortened = ".".join(text.split(".")[:count])
    return shortened in versions or shortened in {version.partition("-")[0] for version in versions}


def _is_duration(item: str, allowed: list[str]) -> bool:
    """Whether durations are allowed, and `item` is one."""
    return allowed[-1].startswith(_BY_DURATION) and bool(
        item.startswith(_BY_DURATION) and _DURATION.fullmatch(item)
    )


@cache
def broker_keys() -> dict[str, ConfigKey]:
    """Every broker setting by name: Kafka's, those of its ZooKeeper mode, and kafkapy's own."""
    return {
        key.name: key
        for table in ("zookeeper_mode_configs", "broker_configs", "kafkapy_configs")
        for key in _read_table(table)
    }


@cache
def cluster_defaults() -> dict[str, str | None]:
    """Kafka's defaults of the settings whose defaults here are those of a sole broker."""
    return {key.name: key.default for key in _read_table("broker_configs") if key.name in _SOLE_DEFAULTS}


def broker_key(name: str) -> ConfigKey:
    """The broker setting `name`: a known one, one of a listener, or an unknown one.

    Only a known one has a default.
    """
    if (key := broker_keys().get(name)) is not None:
        return key
    base = broker_keys().get(listener_setting(name) or "")
    if base is not None:
        return base._replace(name=name, default=None, dynamic=False)
    return ConfigKey(name, UNKNOWN, None, "", dynamic=False, sensitive=True, synonyms=())


def listener_setting(name: str) -> str | None:
    """The setting that `name` sets for one listener; None if it sets none for a listener."""
    match = _LISTENER_SETTING.fullmatch(name)
    if match is None:
        return None
    _, _, of_mechanism = match[1].partition(".")
    if of_mechanism.startswith("sasl.oauthbearer.") and of_mechanism in broker_keys():
        return of_mechanism
    return next((each for each in _OF_MECHANISMS if match[1].endswith(each)), match[1])


@cache
def group_keys() -> dict[str, ConfigKey]:
    """Every setting of a group by name."""
    return {key.name: key for key in _read_table("group_configs")}


@cache
def client_metrics_keys() -> dict[str, ConfigKey]:
    """Every setting of a subscription to metrics of clients by name."""
    return {key.name: key for key in _read_table("client_metrics_configs")}


@cache
def topic_keys() -> dict[str, ConfigKey]:
    """Every topic setting by name."""
    return {key.name: key for key in _read_table("topic_configs")}


def _read_table(table: str) -> Iterator[ConfigKey]:
    text = Path(__file__).with_name(f"{table}.tsv").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        if line.startswith("#"):
            continue
        name, kind, default, valid, *rest = line.split("\t")
        dynamic, sensitive, synonyms = rest or ("no", "yes" if kind == "PASSWORD" else "no", "")
        yield ConfigKey(
            name=name,
            type=kind,
            default=None if default == NULL else default,
            valid=valid,
            dynamic=dynamic == "yes",
            sensitive=sensitive == "yes",
            synonyms=tuple(synonyms.split(",")) if synonyms else (),
        )


def value_text(value: Any) -> str | None:
    """A typed value as text (Kafka's ConfigDef.convertToString)."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _double_text(value)
    return str(value)


def _double_text(value: float) -> str:
    """The number as Java writes it: 0.5, but 1.0E-4 and 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
