"""The format of record values, as a definition has it.

`format` is one word or a mapping (`definition.py`). The registry is a URL, or a mapping with `url` and
further settings of its client.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkapy.pipeline.fields import Fields, shown
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean
from kafkapy.pipeline.secret_options import (
    check_references,
    hidden_url,
    resolved,
    resolved_url,
    with_absolute_files,
)
from kafkapy.pipeline.table_target import absolute

FORMAT_KINDS: Final = ("raw", "json", "avro", "protobuf")
CHANGE_KINDS: Final = ("debezium", "maxwell", "canal", "goldengate")
# Of those that are JSON only: why their columns are not inferred.
_NEED_A_SCHEMA: Final = {
    "canal": "canal writes all values as texts",
    "goldengate": "an update of goldengate may lack some of the columns",
}
# Of confluent-kafka's SchemaRegistryClient.
REGISTRY_SETTINGS: Final = (
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "proxy",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
)

_SCHEMA_FILE = re.compile(r".*\.(json|avsc|ddl|sql|txt|desc|pb|protoset|fds|bin)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class FormatDefinition:
    """The format of record values.

    `schema` is the path of a file or the schema itself.
    """

    kind: str = "raw"
    schema: str | None = None
    message: str | None = None
    registry: str | None = field(default=None, repr=False)
    registry_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    subject: str | None = None
    schemas: Mapping[int, str] = field(default_factory=dict)
    rescued: str | None = None
    changes: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in FORMAT_KINDS:
            raise PipelineError(
                f"format: unknown kind {self.kind!r}{did_you_mean(self.kind, FORMAT_KINDS)}; "
                f"expected {', '.join(FORMAT_KINDS)}"
            )
        takes = {
            "raw": (),
            "json": ("schema", "registry", "subject", "rescued", "changes"),
            "avro": ("schema", "registry", "schemas", "changes"),
            "protobuf": ("schema", "message", "registry", "subject", "changes"),
        }[self.kind]
        for name in ("schema", "message", "registry", "subject", "schemas", "rescued", "changes"):
            if getattr(self, name) and name not in takes:
                raise PipelineError(f"format.{name}: {self.kind} takes no {name}; leave it out")
        if self.kind == "avro" and not (self.schema or self.registry or self.schemas):
            raise PipelineError("format: avro needs a schema, a registry or schemas by id")
        if self.kind == "protobuf" and not (self.schema or self.registry):
            raise PipelineError(
                "format: protobuf needs a schema: the file of a descriptor set "
                "(protoc --include_imports --descriptor_set_out=FILE); or a registry"
            )
        if self.kind != "avro" and self.schema and self.registry:
            raise PipelineError(f"format.registry: {self.kind} takes a schema or a registry; leave one out")
        if self.subject and not self.registry:
            raise PipelineError("format.subject: is of a registry; name it: format.registry")
        if self.changes is not None and self.changes not in CHANGE_KINDS:
            raise PipelineError(
                f"format.changes: unknown kind {self.changes!r}{did_you_mean(self.changes, CHANGE_KINDS)}; "
                f"expected {', '.join(CHANGE_KINDS)}"
            )
        reason = _NEED_A_SCHEMA.get(self.changes or "")
        if reason and self.kind != "json":
            raise PipelineError(f"format.changes: messages of {self.changes} are JSON; write kind: json")
        if reason and not (self.schema or self.registry):
            raise PipelineError(
                f"format.schema: {reason}, so the columns need a schema; "
                "for example id BIGINT NOT NULL, name STRING"
            )
        if self.changes and self.rescued:
            raise PipelineError(
                "format.rescued: what surrounds the row of a change would be rescued from each record; "
                "leave it out, or leave out format.changes"
            )
        if self.registry:
            check_references("format.registry", self.registry)
            if not self.registry.startswith(("http://", "https://", "${")):
                shown_url = hidden_url(self.registry)
                raise PipelineError(
                    f"format.registry: expected an http:// or https:// URL, not {shown_url!r}"
                )
        for setting, value in self.registry_settings.items():
            if setting not in REGISTRY_SETTINGS:
                raise PipelineError(
                    f"format.registry.{setting}: unknown setting{did_you_mean(setting, REGISTRY_SETTINGS)}; "
                    f"known are url, {', '.join(REGISTRY_SETTINGS)}"
                )
            check_references(f"format.registry.{setting}", value)

    @classmethod
    def from_value(cls, value: object, folder: Path | None = None) -> FormatDefinition:
        """Parses the value of the key `format`: one word, or a mapping with `kind`."""
        mapping = value if isinstance(value, Mapping) else {"kind": value}
        known = [one.name for one in dataclasses.fields(cls) if one.name != "registry_settings"]
        registry, settings = _registry(mapping.get("registry"), folder)
        fields = Fields({**mapping, "registry": registry}, known, within="format")
        listed = mapping.get("schemas") or {}
        if not isinstance(listed, Mapping) or not all(
            isinstance(number, int) and isinstance(path, str) for number, path in listed.items()
        ):
            raise PipelineError(f"format.schemas: expected ID: FILE, not {shown(listed)}")
        schema, registry = fields.text("schema"), fields.text("registry")
        return cls(
            kind=fields.required("kind", "json"),
            schema=_absolute_schema(schema, folder),
            message=fields.text("message"),
            registry=registry and with_absolute_files(registry, folder),
            registry_settings=settings,
            subject=fields.text("subject"),
            schemas={number: _absolute_schema(path, folder) or "" for number, path in listed.items()},
            rescued=fields.text("rescued"),
            changes=fields.text("changes"),
        )

    @property
    def has_several_rows(self) -> bool:
        """Whether one record may have several rows, each of another key."""
        return self.changes == "canal"

    @property
    def registry_url(self) -> str | None:
        """The registry's URL with its secrets."""
        return None if self.registry is None else resolved_url("format.registry", self.registry)

    @property
    def resolved_registry_settings(self) -> dict[str, str]:
        """The further settings of the registry's client with their secrets."""
        return {
            name: resolved(f"format.registry.{name}", value) for name, value in self.registry_settings.items()
        }

    def value(self) -> object:
        """The same as `from_value` takes it."""
        given = {
            one.name: getattr(self, one.name) for one in dataclasses.fields(self) if getattr(self, one.name)
        }
        if "schemas" in given:
            given["schemas"] = dict(self.schemas)
        if settings := given.pop("registry_settings", None):
            given["registry"] = {"url": self.registry, **settings}
        return given if len(given) > 1 else self.kind


def is_schema_file(schema: str) -> bool:
    """Whether `schema` is a file's path: a DDL contains spaces, and JSON contains brackets."""
    text = schema.strip()
    if text.startswith(("{", "[", '"')) or "\n" in text:
        return False
    return bool(_SCHEMA_FILE.fullmatch(text)) or not re.search(r"\s|:(?!/)", text)


def _absolute_schema(schema: str | None, folder: Path | None) -> str | None:
    if schema is None or not is_schema_file(schema):
        return schema
    return absolute(schema, folder)


def _registry(value: object, folder: Path | None) -> tuple[object, dict[str, str]]:
    """The URL of `format.registry`, and its settings, with absolute paths."""
    if not isinstance(value, Mapping):
        return value, {}
    settings = Fields({"registry": value}, ["registry"], within="format").options("registry")
    if "url" not in settings:
        raise PipelineError("format.registry.url: is missing; for example http://localhost:8081")
    url = settings.pop("url")
    for name, one in settings.items():
        is_file = name.endswith(".location") and "${" not in one
        settings[name] = absolute(one, folder) if is_file else with_absolute_files(one, folder)
    return url, settings
