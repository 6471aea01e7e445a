"""JSON Schemas, by jsonschema.

`$schema` names the draft; without it, the newest that the library knows is meant.

A schema is valid if its draft's own schema says so, and each `$ref` leads to something: in the schema, or in
a reference, whose name is its URI. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import Draft202012Validator, validator_for
from jsonschema_specifications import REGISTRY as DRAFTS
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from kafkapy.registry.formats import json_text
from kafkapy.registry.formats.parsed import Parsed

_DRAFTS: Final = (
    "http://json-schema.org/draft-03/schema",
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
_MOST_TOLD: Final = 300
"""Characters of what is wrong with a value: it quotes the value."""


def parse(text: str, references: Sequence[tuple[str, str]]) -> Parsed:
    content = json_text.loaded(text)
    registry = _registry(references)
    try:
        _check(content)
        resource = _resource(content)
        _check_references(resource, registry.with_resource("", resource).resolver_with_root(resource))
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise ValueError(f"{error.message} (at /{place})") from None
    except Unresolvable as error:
        raise ValueError(f"$ref {error.ref} leads to nothing") from None
    except TypeError:  # of a JSON pointer that continues into a number
        raise ValueError("a $ref leads into what has no parts") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    normalized = json_text.normalized(content)
    text = json_text.without_spaces(text)
    return Parsed(text, normalized, normalized, text, content)


def validation(text: str, references: Sequence[tuple[str, str]]) -> Callable[[Any], None]:
    """What raises ValueError for a value that does not fit a valid schema."""
    content = json_text.loaded(text)
    validator = validator_for(content, default=Draft202012Validator)(content, registry=_registry(references))

    def validate(value: Any) -> None:
        try:
            error = best_match(validator.iter_errors(value))
        except (Unresolvable, re.error) as problem:  # other registries check less
            raise ValueError(f"the schema cannot be used: {problem}") from None
        if error is not None:
            place = "/".join(map(str, error.absolute_path))
            raise ValueError(f"{error.message[:_MOST_TOLD]} (at /{place})")

    return validate


def _registry(references: Sequence[tuple[str, str]]) -> Registry[Any]:
    resources = ((name, _resource(json_text.loaded(text))) for name, text in references)
    registry: Registry[Any] = DRAFTS.with_resources(resources)
    return registry


def _check(content: Any) -> None:
    """Raises SchemaError, or ValueError for a draft that is not known."""
    if not isinstance(content, dict | bool):
        raise ValueError("a JSON Schema is an object, true or false")
    draft = content.get("$schema", _DRAFTS[-1]) if isinstance(content, dict) else _DRAFTS[-1]
    if not isinstance(draft, str) or draft.rstrip("#") not in _DRAFTS:
        raise ValueError(f"$schema {draft} is not known; known are {', '.join(_DRAFTS)}")
    validator_for(content, default=Draft202012Validator).check_schema(content)  # type: ignore[arg-type]  # true and false are schemas


def _resource(content: Any) -> Resource[Any]:
    return Resource.from_contents(content, default_specification=DRAFT202012)


def _check_references(resource: Resource[Any], resolver: Any) -> None:
    """Raises Unresolvable for a `$ref` that leads to nothing."""
    if isinstance(resource.contents, dict):
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = resource.contents.get(keyword)
            if isinstance(reference, str):
                resolver.lookup(reference)
    for each in resource.subresources():
        _check_references(each, resolver.in_subresource(each))
