"""The errors of a registry, with the codes and words of Confluent's.

The first three digits of a code are the HTTP status. A client gets {"error_code": 40401, "message": "…"}.
"""

from __future__ import annotations

from typing import Final

LEVELS_HINT: Final = (
    "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
)

SECONDS: Final = 10.0
"""How long the cluster may take for an answer; then the request has timed out."""

_MOST_REASONS: Final = 20


class RegistryError(Exception):
    """A request that cannot be carried out."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(str(self.code)[:3])


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def level_not_configured(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(reasons: list[str]) -> RegistryError:
    more = len(reasons) - _MOST_REASONS
    return RegistryError(
        40901,
        "Schema being registered is incompatible with an earlier schema for the subject: "
        + "; ".join([*reasons[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])]),
    )


def unprocessable(message: str) -> RegistryError:
    """A body that is JSON, but not that of this request."""
    return RegistryError(422, message)


INVALID_SCHEMA: Final = 42201


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(INVALID_SCHEMA, f"Invalid schema: {reason}")


def invalid_version(version: object) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between"
        ' [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RegistryError:
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {LEVELS_HINT}")


def invalid_mode() -> RegistryError:
    return RegistryError(
        42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT"
    )


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to version {version} of subject '{subject}'.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not valid.")


def too_large(reason: str) -> RegistryError:
    return RegistryError(42209, f"The schema is too large: {reason}")


def too_many_versions(compared: int, versions: int) -> RegistryError:
    return RegistryError(
        42209,
        f"Comparing the schema with {compared} of {versions} versions has taken too long: give the subject a"
        " level that is not transitive, or delete old versions",
    )


def store_failed(reason: str) -> RegistryError:
    return RegistryError(50001, f"Error in the backend data store: {reason}")


def timed_out() -> RegistryError:
    return RegistryError(50002, "Operation timed out: the Kafka cluster did not answer in time")
