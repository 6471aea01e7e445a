"""All that is registered: a state machine that the entries of the topic drive, with no I/O.

Entries are applied in one thread while others ask, so each call has the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafkapy.registry.entries import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    Entry,
    version_of,
)
from kafkapy.registry.schema import Schema, Version


class Subjects:
    """Subjects with their versions, settings and modes.

    `None` as a subject is the whole registry.
    """

    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self._versions: dict[str, dict[int, Version]] = {}
        self._by_id: dict[int, dict[tuple[str, int], Version]] = {}
        self._ids: dict[Schema, int] = {}
        self._referring: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """The places of the versions that refer to a place, which may have no version."""
        self._last_id = 0
        """The highest id of all entries, those of deleted versions included."""
        self._lock = threading.RLock()

    def apply(self, entry: Entry) -> None:
        """Take in an entry; raises KeyError, TypeError or ValueError for one that cannot be right."""
        with self._lock:
            self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        if entry.keytype == SCHEMA:
            self._apply_schema(entry)
        elif entry.keytype == CONFIG:
            if entry.value is None:
                self.configs.pop(entry.subject, None)
            else:
                self.configs[entry.subject] = entry.value
        elif entry.keytype == MODE:
            if entry.value is None:
                self.modes.pop(entry.subject, None)
            else:
                self.modes[entry.subject] = str(entry.value["mode"])
        elif entry.keytype == DELETE_SUBJECT and entry.value is not None:
            for version in self.versions(str(entry.value["subject"])):
                if version.version <= int(entry.value["version"]):
                    self._put(replace(version, deleted=True))
        elif entry.keytype == CLEAR_SUBJECT and entry.value is not None:
            subject = entry.value.get("subject")
            for name in list(self._versions) if subject is None else [str(subject)]:
                for version in self.versions(name, deleted=True):
                    self._remove(version.subject, version.version)

    def names(self) -> list[str]:
        """The subjects, those of which all versions are deleted softly included, in order."""
        with self._lock:
            return sorted(self._versions)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject in order, with those that are deleted softly if so wanted."""
        with self._lock:
            found = self._versions.get(subject, {})
            return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, number: int) -> Version | None:
        """A version of a subject, deleted softly or not."""
        with self._lock:
            return self._versions.get(subject, {}).get(number)

    def by_id(self, schema_id: int) -> list[Version]:
        """All versions that have this id, by subject and version."""
        with self._lock:
            found = self._by_id.get(schema_id, {})
            return [found[place] for place in sorted(found)]

    def id_of(self, schema: Schema) -> int | None:
        """The id that a schema, spelt so, has in any subject."""
        return self._ids.get(schema)

    def next_id(self) -> int:
        """The id of the next new schema."""
        return self._last_id + 1

    def referring(self, subject: str, number: int, *, deleted: bool = False) -> list[Version]:
        """The versions that refer to this one."""
        with self._lock:
            found = [self._versions[name][each] for name, each in self._referring.get((subject, number), ())]
        return sorted(
            (version for version in found if deleted or not version.deleted),
            key=lambda version: (version.subject, version.version),
        )

    def _apply_schema(self, entry: Entry) -> None:
        if entry.value is not None:
            self._put(version_of(entry.value))
        elif entry.subject is not None and entry.version is not None:
            self._remove(entry.subject, entry.version)

    def _put(self, version: Version) -> None:
        self._remove(version.subject, version.version)
        self._versions.setdefault(version.subject, {})[version.version] = version
        self._by_id.setdefault(version.id, {})[version.subject, version.version] = version
        self._ids.setdefault(version.schema, version.id)
        for each in version.schema.references:
            places = self._referring.setdefault((each.subject, each.version), set())
            places.add((version.subject, version.version))
        self._last_id = max(self._last_id, version.id)

    def _remove(self, subject: str, number: int) -> None:
        removed = self._versions.get(subject, {}).pop(number, None)
        if removed is None:
            return
        if not self._versions[subject]:
            del self._versions[subject]
        for each in removed.schema.references:
            places = self._referring.get((each.subject, each.version), set())
            places.discard((subject, number))
            if not places:
                self._referring.pop((each.subject, each.version), None)
        with_id = self._by_id[removed.id]
        del with_id[subject, number]
        if not with_id:
            del self._by_id[removed.id]
            if self._ids.get(removed.schema) == removed.id:
                del self._ids[removed.schema]
