"""What refers to a version is known without a look at all versions."""

from __future__ import annotations

import time

import pytest

from kafkapy.registry import formats
from kafkapy.registry.entries import CONFIG, SCHEMA, Entry, of_version
from kafkapy.registry.errors import RegistryError
from kafkapy.registry.registry import Asked, Registry
from kafkapy.registry.schema import AVRO, Reference, Schema, Version
from kafkapy.registry.subjects import Subjects
from tests.calls import calls_of


def put(subjects: Subjects, subject: str, number: int, *referred: tuple[str, int]) -> None:
    references = tuple(Reference(name, name, version) for name, version in referred)
    schema = Schema(AVRO, f'{{"type":"fixed","name":"{subject}","size":{number}}}', references)
    subjects.apply(of_version(Version(subject, number, number, schema)))


def test_what_refers_to_a_version() -> None:
    subjects = Subjects()
    put(subjects, "b", 1, ("a", 1), ("a", 2))
    put(subjects, "c", 1, ("a", 1))
    put(subjects, "a", 1)
    assert [version.subject for version in subjects.referring("a", 1)] == ["b", "c"]
    put(subjects, "b", 1, ("a", 2))
    subjects.apply(Entry("DELETE_SUBJECT", "c", None, {"subject": "c", "version": 1}))
    assert subjects.referring("a", 1) == []
    assert [version.subject for version in subjects.referring("a", 1, deleted=True)] == ["c"]
    subjects.apply(Entry(SCHEMA, "c", 1, None))
    assert subjects.referring("a", 1, deleted=True) == []
    assert [version.subject for version in subjects.referring("a", 2)] == ["b"]


def test_a_subject_of_many_versions_is_deleted_in_one_pass() -> None:
    """With a look at all versions for each of them, this would take minutes."""
    subjects = Subjects()
    for number in range(1, 4001):
        put(subjects, f"s{number}", 1)
        put(subjects, "a", number)
    written: list[Entry] = []

    def write(*entries: Entry) -> None:
        written.extend(entries)

    registry, begun = Registry(subjects, write, lambda: None), time.process_time()
    assert registry.delete_subject("a", permanent=False) == list(range(1, 4001))
    assert len(written) == 1
    assert time.process_time() - begun < 5


def test_a_spelling_is_looked_for_before_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each later version would be checked, which takes protoc a tenth of a second."""
    subjects, checked = Subjects(), calls_of(monkeypatch, formats, "parsed")
    for number in range(1, 21):
        put(subjects, "a", number)

    registry = Registry(subjects, lambda *_: None, lambda: None)
    first = subjects.versions("a")[0].schema
    assert registry.lookup("a", Asked(first), deleted=False).version == 1
    assert [call.arguments[1] for call in checked] == [first.text]


def test_a_comparison_with_all_versions_ends_in_time() -> None:
    subjects = Subjects()
    for number in range(1, 21):
        put(subjects, "a", number)
    subjects.apply(Entry(CONFIG, "a", None, {"compatibilityLevel": "FULL_TRANSITIVE"}))
    registry = Registry(subjects, lambda *_: None, lambda: None, comparing_seconds=0)
    with pytest.raises(RegistryError, match=r"with 1 of 20 versions .* not transitive"):
        registry.register("a", Asked(Schema(AVRO, '"int"')))
    subjects.apply(Entry(CONFIG, "a", None, {"compatibilityLevel": "FULL"}))
    assert registry.compare("a", None, Asked(Schema(AVRO, '"int"')))
