"""A schema registry, through the client that confluent-kafka brings.

Readers need schemas by id, the newest of a subject, and the schemas that those refer to. An id that the
registry does not know is an error of the record. A registry that does not answer raises PipelineError. The
client has its own cache, retries, TLS, and logins by password and by token (OAuth). Interface: Confluent's
Schema Registry, which Karapace, Apicurio (/apis/ccompat/v7) and Redpanda implement too.
"""

from __future__ import annotations

import http
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.secret_options import hidden_url, redacted, secrets_of

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")

# Three attempts; the client's own defaults wait for a registry that hangs for ever.
_PATIENCE: Final[dict[str, Any]] = {"timeout": 5.0, "max.retries": 2, "retries.wait.ms": 300}
# The client demands these of a login by token. Confluent's cloud needs them; others do not know them.
_OF_A_TOKEN: Final = {"bearer.auth.logical.cluster": "", "bearer.auth.scope": ""}
_ANY_ID: Final = 1


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of the registry.

    `kind` is AVRO, JSON or PROTOBUF. Each of the `references`, by the names that schemas call them, comes
    after those that it uses itself.
    """

    kind: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class Registry:
    def __init__(self, url: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are further ones by the client's names; their secrets are in no message."""
        self.url = hidden_url(url).replace("[hidden]@", "").rstrip("/")
        self._settings = {"url": url, **(settings or {})}
        self._secrets = secrets_of(self._settings, url)
        self._made: SchemaRegistryClient | None = None

    @property
    def _client(self) -> SchemaRegistryClient:
        if self._made is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ModuleNotFoundError as error:
                raise PipelineError(
                    f"the schema registry {self.url} needs {error.name}: pip install '.[spark]' in a checkout"
                ) from None
            settings = {**_PATIENCE, **self._settings}
            if "bearer.auth.credentials.source" in settings:
                settings = {**_OF_A_TOKEN, **settings}
                if settings["bearer.auth.credentials.source"] != "OAUTHBEARER":
                    settings.pop("bearer.auth.scope")
            try:
                self._made = SchemaRegistryClient(settings)
            except (ValueError, TypeError, OSError) as error:
                raise PipelineError(f"format.registry: {self._told(error)}") from None
        return self._made

    def check(self) -> None:
        """Sends a request.

        Raises PipelineError if the registry is unreachable or refuses the login.
        """
        self._asked(lambda: self._client.get_schema(_ANY_ID))

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """None when the registry has no schema of this id."""
        found = self._asked(lambda: self._client.get_schema(schema_id))
        return None if found is None else self._registered(found, None)

    def latest(self, subject: str, kind: str, *, form: str | None = None) -> RegisteredSchema:
        """The newest schema of a subject; with `form` as the registry writes that one.

        Raises PipelineError if there is none, or none of that kind.
        """
        found = self._asked(lambda: self._client.get_version(subject, "latest", fmt=form))
        if found is None:
            raise PipelineError(
                f"the schema registry {self.url} has no subject {subject}; name the one of the values: "
                "format.subject"
            )
        registered = self._registered(found.schema, form)
        if registered.kind != kind:
            raise PipelineError(
                f"the subject {subject} of the schema registry {self.url} is a schema of {registered.kind}, "
                f"not {kind}; name another: format.subject"
            )
        return registered

    def _registered(self, schema: Any, form: str | None) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._add_references(schema.references or (), form, references)
        return RegisteredSchema(schema.schema_type or "AVRO", schema.schema_str or "", references)

    def _add_references(self, listed: Iterable[Any], form: str | None, found: dict[str, str]) -> None:
        for one in listed:
            if one.name in found:
                continue
            referred = self._asked(
                lambda one=one: self._client.get_version(one.subject, one.version, fmt=form)  # type: ignore[misc]
            )
            if referred is None:
                raise PipelineError(
                    f"the schema registry {self.url} has no version {one.version} of {one.subject}, to which "
                    "a schema refers"
                )
            self._add_references(referred.schema.references or (), form, found)
            found[one.name] = referred.schema.schema_str or ""

    def _asked(self, question: Callable[[], T]) -> T | None:
        """The answer; None if the registry knows no such thing."""
        client = self._client  # raises for wrong settings, which are no answer
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        assert client is not None
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == 404:
                return None
            problem = f"answered {error.http_status_code} {_phrase(error.http_status_code)}"
            if error.http_status_code in (401, 403):
                raise PipelineError(
                    f"the schema registry {self.url} {problem}; put USER:PASSWORD@ into format.registry, or "
                    "another login"
                ) from None
        except OAuthTokenError as error:
            raise PipelineError(
                f"the schema registry {self.url} cannot be asked without a token: {self._told(error)}"
            ) from None
        except ValueError:
            problem = "did not answer with JSON"
        except Exception as error:  # of the client's HTTP library, whose name changes
            problem = f"cannot be reached: {self._told(error)}"
        raise PipelineError(f"the schema registry {self.url} {problem}; start it, or correct format.registry")

    def _told(self, error: Exception) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        return redacted(text, self._secrets)[:300]


def registry_of(definition: FormatDefinition) -> Registry | None:
    """The registry that a definition names, if it does."""
    url = definition.registry_url
    return None if url is None else Registry(url, definition.resolved_registry_settings)


def registered_schema(
    definition: FormatDefinition, topic: str, kind: str, *, form: str | None = None
) -> tuple[RegisteredSchema, str]:
    """The newest schema of the values of a topic, and its subject."""
    registry = registry_of(definition)
    assert registry is not None
    subject = definition.subject or f"{topic}-value"
    return registry.latest(subject, kind, form=form), subject


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""
