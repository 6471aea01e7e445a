"""What each request to a registry does: checks first, then entries for the topic.

Everything that changes something has one lock, so that nothing comes between a check and its entry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from kafkapy.registry import errors, formats
from kafkapy.registry.entries import CONFIG, DELETE_SUBJECT, MODE, SCHEMA, Entry, of_version
from kafkapy.registry.formats.parsed import Parsed
from kafkapy.registry.formats.recent import References
from kafkapy.registry.schema import KINDS, MOST_ID, Reference, Schema, Version
from kafkapy.registry.subjects import Subjects

DEFAULT_LEVEL: Final = "BACKWARD"
LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
READWRITE: Final = "READWRITE"
READONLY: Final = "READONLY"
READONLY_OVERRIDE: Final = "READONLY_OVERRIDE"
IMPORT: Final = "IMPORT"
MODES: Final = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)

LATEST: Final = "latest"
_MOST_REFERENCES: Final = 1000
"""All schemas that one needs, directly or not."""
_MOST_CHARACTERS: Final = 4 * 1024 * 1024
"""Of a schema and all that it needs."""
_MOST_REASON: Final = 2000
"""Characters of a library's message, which may have the whole schema."""


@dataclass(frozen=True)
class Asked:
    """A schema of a request; `id` and `version` are for imports."""

    schema: Schema
    id: int | None = None
    version: int | None = None
    normalize: bool = False


class Registry:
    """The subjects, and the way to change them.

    Args:
        subjects: what is registered; the topic's entries drive it.
        write: writes entries to the topic, and returns when they are applied.
        settle: returns when nothing is on its way that an earlier, failed write left.
        comparing_seconds: how long a schema is compared with earlier versions. Other changes wait meanwhile.
    """

    def __init__(
        self,
        subjects: Subjects,
        write: Callable[..., None],
        settle: Callable[[], None],
        *,
        comparing_seconds: float = errors.SECONDS / 2,
    ) -> None:
        self.subjects, self._write, self._settle = subjects, write, settle
        self._comparing_seconds = comparing_seconds
        self._changes = threading.Lock()

    # Schemas and versions

    def register(self, subject: str, asked: Asked) -> Version:
        """Register a schema as the next version of a subject, or find it there."""
        _check_subject(subject)
        with self._changing():
            self._check_writable(subject)
            importing = self.mode(subject) == IMPORT
            if importing and asked.id is None:
                raise errors.not_permitted(f"Subject {subject} is in import mode: give the schema's id")
            if not importing and asked.id is not None:
                raise errors.not_permitted(f"Subject {subject} is not in import mode")
            schema, parsed = self._parsed(asked, subject)
            live = self.subjects.versions(subject)
            if not importing:
                found = self._same(schema, parsed, live)
                if found is not None:
                    return found
                if reasons := self._incompatibilities(schema, parsed, self.level(subject), live):
                    raise errors.incompatible(reasons)
            version = self._new_version(subject, schema, asked, importing)
            # A version that was deleted softly is replaced by the same schema's new one.
            replaced = [
                Entry(SCHEMA, subject, each.version, None)
                for each in self.subjects.versions(subject, deleted=True)
                if each.deleted
                and each.id == version.id
                and each.version < version.version
                and not self.subjects.referring(subject, each.version, deleted=True)
            ]
            self._write(*replaced, of_version(version))
            return version

    def lookup(self, subject: str, asked: Asked, *, deleted: bool) -> Version:
        """The version of a subject that a schema is."""
        versions = self.subjects.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        schema, parsed = self._parsed(asked, subject)
        found = self._same(schema, parsed, versions)
        if found is None:
            raise errors.schema_not_found()
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """A version of a subject by its number, `latest` or -1."""
        wanted = _number(number)
        versions = self.subjects.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        if wanted is None:
            return versions[-1]
        found = self.subjects.version(subject, wanted)
        if found is None or (found.deleted and not deleted):
            raise errors.version_not_found(wanted)
        return found

    def versions(self, subject: str, *, deleted: bool, deleted_only: bool) -> list[int]:
        """The numbers of a subject's versions."""
        found = self.subjects.versions(subject, deleted=deleted or deleted_only)
        numbers = [each.version for each in found if each.deleted or not deleted_only]
        if not numbers:
            raise errors.subject_not_found(subject)
        return numbers

    def by_id(self, schema_id: int, *, deleted: bool = True) -> list[Version]:
        """All versions of an id."""
        found = [each for each in self.subjects.by_id(schema_id) if deleted or not each.deleted]
        if not self.subjects.by_id(schema_id):
            raise errors.schema_not_found(schema_id)
        return found

    def serialized(self, version: Version) -> str:
        """The schema as its format writes it for programs: Protobuf as a descriptor."""
        found = self._parsed_version(version)
        if found is None:
            raise errors.invalid_schema(f"version {version.version} of {version.subject} cannot be read here")
        return found.serialized

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject, softly or permanently; return their numbers."""
        with self._changing():
            self._check_writable(subject)
            every = self.subjects.versions(subject, deleted=True)
            live = [each for each in every if not each.deleted]
            if not every:
                raise errors.subject_not_found(subject)
            if permanent and live:
                raise errors.subject_not_soft_deleted(subject)
            if not permanent and not live:
                raise errors.subject_soft_deleted(subject)
            doomed = every if permanent else live
            for each in doomed:
                others = self.subjects.referring(subject, each.version, deleted=permanent)
                if any(other.subject != subject for other in others):
                    raise errors.reference_exists(subject, each.version)
            if permanent:
                # The last first: versions may refer to earlier ones.
                gone = [Entry(SCHEMA, subject, each.version, None) for each in reversed(doomed)]
                self._write(*gone, *self._without_settings(subject))
            else:
                last = doomed[-1].version
                self._write(Entry(DELETE_SUBJECT, subject, None, {"subject": subject, "version": last}))
            return [each.version for each in doomed]

    def delete_version(self, subject: str, number: str, *, permanent: bool) -> int:
        """Delete a version, softly or permanently; return its number."""
        with self._changing():
            self._check_writable(subject)
            wanted = _number(number)
            every = self.subjects.versions(subject, deleted=True)
            if not every:
                raise errors.subject_not_found(subject)
            found: Version | None
            if wanted is None:
                candidates = [each for each in every if each.deleted == permanent]
                found = candidates[-1] if candidates else every[-1]
            else:
                found = self.subjects.version(subject, wanted)
            if found is None:
                raise errors.version_not_found(wanted)
            if found.deleted and not permanent:
                raise errors.version_soft_deleted(subject, found.version)
            if not found.deleted and permanent:
                raise errors.version_not_soft_deleted(subject, found.version)
            if self.subjects.referring(subject, found.version, deleted=permanent):
                raise errors.reference_exists(subject, found.version)
            if permanent:
                gone = Entry(SCHEMA, subject, found.version, None)
                self._write(gone, *(self._without_settings(subject) if len(every) == 1 else ()))
            else:
                self._write(of_version(replace(found, deleted=True)))
            return found.version

    # Compatibility

    def compare(self, subject: str, number: str | None, asked: Asked) -> list[str]:
        """Why a schema may not follow a version; without a number, those that its level is about."""
        against = self.subjects.versions(subject)
        if number is not None:
            wanted = _number(number)
            against = [each for each in against if wanted in (None, each.version)][-1:]
            if wanted is not None and not against:
                raise errors.version_not_found(wanted)
        schema, parsed = self._parsed(asked, subject)
        return self._incompatibilities(schema, parsed, self.level(subject), against)

    def level(self, subject: str | None) -> str:
        """The compatibility level that is in force."""
        for each in (subject, None):
            found = self.subjects.configs.get(each, {}).get("compatibilityLevel")
            if found in LEVELS:  # not one that only another registry knows
                return str(found)
        return DEFAULT_LEVEL

    def config(self, subject: str | None, *, default_to_global: bool) -> dict[str, Any]:
        """The settings of a subject or of the registry."""
        found = self.subjects.configs.get(subject)
        if found is None and subject is not None and not default_to_global:
            raise errors.level_not_configured(subject)
        if found is None:
            found = self.subjects.configs.get(None, {})
        shown = {name: value for name, value in found.items() if value is not None and name != "subject"}
        return {"compatibilityLevel": self.level(subject), **shown}

    def set_config(self, subject: str | None, changes: Mapping[str, Any]) -> None:
        """Change settings; `changes` has those that are given."""
        if subject is not None:
            _check_subject(subject)
        with self._changing():
            self._check_writable(subject)
            old = self.subjects.configs.get(subject, {})
            self._write(Entry(CONFIG, subject, None, {**old, **changes}))

    def delete_config(self, subject: str | None) -> dict[str, Any]:
        """Forget the settings of a subject or of the registry; return them."""
        with self._changing():
            self._check_writable(subject)
            if subject is not None and subject not in self.subjects.configs:
                raise errors.subject_not_found(subject)
            old = self.config(subject, default_to_global=True)
            self._write(Entry(CONFIG, subject, None, None))
            return old

    # Modes

    def mode(self, subject: str | None) -> str:
        """The mode that is in force."""
        whole = self.subjects.modes.get(None, READWRITE)
        return whole if whole == READONLY_OVERRIDE else self.subjects.modes.get(subject, whole)

    def shown_mode(self, subject: str | None, *, default_to_global: bool) -> str:
        """The mode of a subject or of the registry."""
        if subject is not None and subject not in self.subjects.modes and not default_to_global:
            raise errors.mode_not_configured(subject)
        return self.subjects.modes.get(subject, self.subjects.modes.get(None, READWRITE))

    def set_mode(self, subject: str | None, mode: str, *, force: bool) -> None:
        """Change a mode; for imports, no subject may be there yet, unless `force`."""
        if subject is not None:
            _check_subject(subject)
        if mode not in MODES:
            raise errors.invalid_mode()
        with self._changing():
            if mode == IMPORT and self.mode(subject) != IMPORT and not force:
                names = self.subjects.names() if subject is None else [subject]
                if any(self.subjects.versions(name, deleted=True) for name in names):
                    raise errors.not_permitted("Cannot import since found existing subjects")
            self._write(Entry(MODE, subject, None, {"mode": mode}))

    def delete_mode(self, subject: str | None) -> str:
        """Forget a mode; return it."""
        with self._changing():
            if subject is not None and subject not in self.subjects.modes:
                raise errors.mode_not_configured(subject)
            old = self.shown_mode(subject, default_to_global=True)
            self._write(Entry(MODE, subject, None, None))
            return old

    # Parts

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Nothing else changes meanwhile.

        While the cluster does not answer, those that wait here leave threads to those that only read.
        """
        if not self._changes.acquire(timeout=errors.SECONDS):
            raise errors.timed_out()
        try:
            self._settle()
            yield
        finally:
            self._changes.release()

    def _check_writable(self, subject: str | None) -> None:
        if self.mode(subject) in (READONLY, READONLY_OVERRIDE):
            what = "The registry" if subject is None else f"Subject {subject}"
            raise errors.not_permitted(f"{what} is in read-only mode")

    def _without_settings(self, subject: str) -> list[Entry]:
        """The entries that forget a subject's settings and mode."""
        kinds = ((CONFIG, self.subjects.configs), (MODE, self.subjects.modes))
        return [Entry(kind, subject, None, None) for kind, found in kinds if subject in found]

    def _parsed(self, asked: Asked, subject: str) -> tuple[Schema, Parsed]:
        """A schema of a request, as it is kept."""
        schema = asked.schema
        if schema.kind not in KINDS:
            raise errors.invalid_schema(f"there is no schemaType {schema.kind}; there are {', '.join(KINDS)}")
        if not schema.text.strip():
            raise errors.invalid_schema("it is empty")
        schema = replace(schema, references=self._numbered(schema.references))
        references = self._references(schema)
        try:
            parsed = formats.parsed(schema.kind, schema.text, references)
        except ValueError as error:
            raise errors.invalid_schema(" ".join(str(error)[:_MOST_REASON].split())) from None
        wanted = asked.normalize or self._normalizes(subject)
        return replace(schema, text=parsed.normalized if wanted else parsed.text), parsed

    def _normalizes(self, subject: str) -> bool:
        found = (self.subjects.configs.get(each, {}).get("normalize") for each in (subject, None))
        return bool(next((each for each in found if each is not None), False))

    def _numbered(self, references: Iterable[Reference]) -> tuple[Reference, ...]:
        """References with the number of the latest version in place of -1."""
        return tuple(
            replace(each, version=self.version(each.subject, LATEST).version) if each.version == -1 else each
            for each in references
        )

    def _references(self, schema: Schema) -> References:
        """The names and texts of all that a schema needs, each after what it needs itself."""
        found: dict[str, str] = {}
        characters = len(schema.text)

        def collect(references: Sequence[Reference]) -> None:
            nonlocal characters
            for each in references:
                if each.name in found:
                    continue
                version = self.subjects.version(each.subject, each.version)
                if version is None:
                    raise errors.invalid_schema(
                        f'no schema reference found for subject "{each.subject}" and version {each.version}'
                    )
                if len(found) >= _MOST_REFERENCES:
                    raise errors.invalid_schema(f"it needs more than {_MOST_REFERENCES} others")
                characters += len(version.schema.text)
                if characters > _MOST_CHARACTERS:
                    raise errors.invalid_schema(
                        f"it and all that it needs have more than {_MOST_CHARACTERS} characters"
                    )
                collect(version.schema.references)
                found[each.name] = version.schema.text

        try:
            collect(schema.references)
        except RecursionError:
            raise errors.invalid_schema("its references need too many others, one after the other") from None
        return tuple(found.items())

    def _same(self, schema: Schema, parsed: Parsed, versions: Sequence[Version]) -> Version | None:
        """The latest of the versions that is this schema: spelt so, or else in any spelling."""
        for version in reversed(versions):
            if version.schema == schema:
                return version
        for version in reversed(versions):
            if version.schema.kind == schema.kind and version.schema.references == schema.references:
                known = self._parsed_version(version)
                if known is not None and known.identity == parsed.identity:
                    return version
        return None

    def _parsed_version(self, version: Version) -> Parsed | None:
        """A version as its format reads it; None for one of another registry that it refuses."""
        schema = version.schema
        try:
            return formats.parsed(schema.kind, schema.text, self._references(schema))
        except (KeyError, ValueError, errors.RegistryError):
            return None

    def _new_version(self, subject: str, schema: Schema, asked: Asked, importing: bool) -> Version:
        every = self.subjects.versions(subject, deleted=True)
        number = every[-1].version + 1 if every else 1
        known = self.subjects.id_of(schema)
        if not importing:
            if asked.version not in (None, number):
                raise errors.invalid_schema("Version is not one more than previous version")
            schema_id = known or self.subjects.next_id()
            if max(schema_id, number) > MOST_ID:
                raise errors.not_permitted(f"Ids and versions end at {MOST_ID}, which is in use")
            return Version(subject, number, schema_id, schema)
        assert asked.id is not None
        others = self.subjects.by_id(asked.id)
        if others and others[0].schema != schema:
            raise errors.not_permitted(f"Overwrite new schema with id {asked.id} is not permitted.")
        if (asked.version or number) > MOST_ID:
            raise errors.not_permitted(f"Versions end at {MOST_ID}, which is in use")
        return Version(subject, asked.version or number, asked.id, schema)

    def _incompatibilities(
        self, schema: Schema, parsed: Parsed, level: str, versions: Sequence[Version]
    ) -> list[str]:
        """Why a schema may not follow these versions at this level."""
        if level == "NONE" or not versions:
            return []
        reasons = []
        against = versions if level.endswith("_TRANSITIVE") else versions[-1:]
        until = time.monotonic() + self._comparing_seconds
        for compared, version in enumerate(reversed(against)):
            if compared and time.monotonic() > until:
                raise errors.too_many_versions(compared, len(against))
            where, old = f"version {version.version}", self._parsed_version(version)
            if version.schema.kind != schema.kind:
                reasons.append(f"{where} is {version.schema.kind}, and this schema {schema.kind}")
            elif old is None:
                reasons.append(f"{where} cannot be read here, so nothing can be said of it")
            else:
                if level.startswith(("BACKWARD", "FULL")):
                    found = _unreadable(schema.kind, level, parsed, old)
                    reasons += [f"it cannot read {where}: {why}" for why in found]
                if level.startswith(("FORWARD", "FULL")):
                    found = _unreadable(schema.kind, level, old, parsed)
                    reasons += [f"{where} cannot read it: {why}" for why in found]
        return reasons


def _unreadable(kind: str, level: str, reader: Parsed, writer: Parsed) -> list[str]:
    found = formats.unreadable(kind, reader, writer)
    if found is None:
        raise errors.not_permitted(
            f"The compatibility of {kind} schemas cannot be judged here: set the level of the subject to NONE"
            f" (it is {level})"
        )
    return found


def _check_subject(subject: str) -> None:
    in_a_context = subject.startswith(":.")
    if not subject.strip() or not subject.isprintable() or in_a_context:
        raise errors.invalid_subject(subject)


def _number(text: str) -> int | None:
    """A version's number; None for the latest."""
    if text in (LATEST, "-1"):
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 1 <= int(text) <= MOST_ID):
        raise errors.invalid_version(text)
    return int(text)
