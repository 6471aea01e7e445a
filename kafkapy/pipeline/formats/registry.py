"""The part of a schema registry's HTTP interface that readers need.

Readers need schemas by id, and the schemas that those refer to:

    GET /schemas/ids/7                        {"schema": "...", "schemaType": "AVRO", "references": [...]}
    GET /subjects/SUBJECT/versions/2          {"schema": "...", "references": [...]}

An id that the registry does not know is an error of the record. A registry that does not answer raises
PipelineError. User and password are in the URL. Interface: Confluent's Schema Registry, which Karapace,
Apicurio (/apis/ccompat/v7) and Redpanda implement too.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError

_TIMEOUT: Final = 5.0
_ATTEMPTS: Final = 3
_PAUSE: Final = 0.3  # seconds, doubled after each attempt


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of the registry.

    `kind` is AVRO, JSON or PROTOBUF. Each of the `references` comes after those that it uses itself.
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()


class Registry:
    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        address = parts.hostname or ""
        address = f"[{address}]" if ":" in address else address
        address += f":{parts.port}" if parts.port else ""
        self.url = urllib.parse.urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            user, password = (urllib.parse.unquote(one or "") for one in (parts.username, parts.password))
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def check(self) -> None:
        """Sends a request.

        Raises PipelineError if the registry is unreachable or refuses the user.
        """
        self._get("/schemas/types")

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """None when the registry has no schema of this id."""
        found = self._get(f"/schemas/ids/{schema_id}")
        if found is None:
            return None
        references = dict(self._references(found))
        return RegisteredSchema(found.get("schemaType", "AVRO"), found["schema"], tuple(references.values()))

    def _references(self, found: dict[str, Any]) -> Iterator[tuple[tuple[str, int], str]]:
        for one in found.get("references") or ():
            subject, version = one["subject"], one["version"]
            referred = self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")
            if referred is None:
                raise PipelineError(
                    f"the schema registry {self.url} has no version {version} of {subject}, to which a "
                    "schema refers"
                )
            yield from self._references(referred)
            yield (subject, version), referred["schema"]

    def _get(self, path: str) -> Any:
        """The JSON answer; None for 404."""
        request = urllib.request.Request(self.url + path, headers=self._headers)
        for attempt in range(_ATTEMPTS):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                problem = f"answered {error.code} {error.reason}"
                if error.code in (401, 403):
                    raise PipelineError(
                        f"the schema registry {self.url} {problem}; put USER:PASSWORD@ into format.registry"
                    ) from None
                if error.code < 500:
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = f"cannot be reached: {getattr(error, 'reason', None) or error}"
            except ValueError:
                problem = "did not answer with JSON"
                break
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE * 2**attempt)
        raise PipelineError(f"the schema registry {self.url} {problem}; start it, or correct format.registry")
