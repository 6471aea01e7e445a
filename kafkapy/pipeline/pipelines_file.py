"""A YAML file of one pipeline or of many, which one Spark runs.

A file of many has `pipelines`. The keys beside it are the defaults of all of them:

    bootstrap: 127.0.0.1:9092
    format: json
    table: delta:lake/{topic}
    dead_letter: "{topic}.dlq"
    spark: {spark.driver.memory: 4g}    # one Spark for all: these and `master` stand here only
    pipelines:
    - topic: orders
      key: id
    - topics: shop[.].*                 # a regular expression (RE2): each topic becomes a table

`{topic}` in name, table, state, files, dead_letter, group and the format's schema is the name of the topic.
A pattern does not match topics that another entry names or an earlier pattern matches, the dead-letter topics
of the file, or Kafka's own topics (`__...`). A file without `pipelines` may have `topics` too.

What can be wrong without a broker is found when the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from kafkapy.patterns import Pattern, PatternError, compile_pattern
from kafkapy.pipeline.definition import PipelineDefinition, is_of_many
from kafkapy.pipeline.fields import shown
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.table_target import is_in_a_catalog, is_name_in_a_catalog

PLACE: Final = "{topic}"
_PLACES: Final = ("name", "table", "state", "files", "dead_letter", "group", "schema")
_OF_ALL: Final = ("spark", "master")
# Any topic: a pattern's entry is checked with it before there are topics.
_SAMPLE: Final = "topic"


@dataclass(frozen=True)
class _Entry:
    """What the file says, with its defaults, of one topic or of a pattern."""

    values: Mapping[str, Any]
    pattern: Pattern | None
    source: str
    folder: Path | None
    given: Mapping[str, Any]

    def definition(self, topic: str) -> PipelineDefinition:
        values = dict(self.values)
        if isinstance(table := values.get("table"), str):
            values["table"] = _table_for(topic, table, self.source)
        given = {**_filled(values, topic), "topic": topic}
        given.pop("topics", None)
        definition = PipelineDefinition.from_mapping(given, source=self.source, folder=self.folder)
        return replace(definition, **self.given)


class PipelinesFile:
    """The pipelines of one file, or the one of a table."""

    def __init__(self, named: Iterable[PipelineDefinition], entries: Iterable[_Entry], source: str) -> None:
        self.named = tuple(named)
        self._patterns = tuple(entry for entry in entries if entry.pattern is not None)
        self.samples = tuple(entry.definition(_SAMPLE) for entry in self._patterns)
        """A definition of each pattern: all but what depends on the topic."""
        self._source = source
        _check_unique(self.named, source)

    @classmethod
    def load(cls, path_or_table: str | Path, **given: Any) -> Self:
        """Loads a YAML file, or the pipeline of a table.

        `given` are fields of the definitions to use instead of the file's. Raises PipelineError.
        """
        path = Path(path_or_table)
        if not path.is_file():
            only = replace(PipelineDefinition.load(path_or_table), **given)
            return cls((only,), (), str(path_or_table))
        text = PipelineDefinition.text_of(path)
        return cls.parse(text, source=str(path), folder=path.absolute().parent, **given)

    @classmethod
    def parse(cls, text: str, *, source: str, folder: Path | None = None, **given: Any) -> Self:
        """Parses YAML text.

        Messages call it `source`.
        """
        from kafkapy.pipeline.yaml_text import load

        value = load(text, source)
        if not isinstance(value, Mapping) or not is_of_many(value):
            only = PipelineDefinition.from_mapping(value, source=source, folder=folder)
            return cls((replace(only, **given),), (), source)
        entries = list(_entries(value, source, folder, given))
        named = (entry.definition(entry.values["topic"]) for entry in entries if entry.pattern is None)
        return cls(named, entries, source)

    @property
    def only(self) -> PipelineDefinition | None:
        """The definition, if there is one and no pattern."""
        return self.named[0] if len(self.named) == 1 and not self._patterns else None

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def definitions(self, names: Callable[[PipelineDefinition], Collection[str]]) -> list[PipelineDefinition]:
        """All definitions, with those of the topics that patterns match.

        `names` gives the topics that the client of one of `samples` sees. Raises PipelineError if two would
        have the same name or table.
        """
        found = list(self.named)
        taken = {(one.bootstrap, one.topic) for one in found}
        for entry, sample in zip(self._patterns, self.samples, strict=True):
            assert entry.pattern is not None
            for topic in sorted(names(sample)):
                if (sample.bootstrap, topic) in taken or topic.startswith("__"):
                    continue
                if entry.pattern.fullmatch(topic) and not self._is_dead_letter(topic):
                    taken.add((sample.bootstrap, topic))
                    found.append(entry.definition(topic))
        _check_unique(found, self._source)
        return found

    def _is_dead_letter(self, topic: str) -> bool:
        """Whether it is a dead-letter topic of a pipeline, even of one whose topic is deleted."""
        if any(one.dead_letter == topic for one in self.named):
            return True
        for entry in self._patterns:
            before, place, after = str(entry.values.get("dead_letter") or "").partition(PLACE)
            if (before == topic and not place) or (
                place
                and topic.startswith(before)
                and topic.endswith(after)
                and len(topic) > len(before) + len(after)
            ):
                return True
        return False


def _entries(
    value: Mapping[str, Any], source: str, folder: Path | None, given: Mapping[str, Any]
) -> Iterable[_Entry]:
    listed = value.get("pipelines", [{}])
    if not isinstance(listed, list) or not listed or not all(isinstance(one, Mapping) for one in listed):
        raise PipelineError(f"{source}: pipelines: expected a list of pipelines, not {shown(listed)}")
    defaults = {key: one for key, one in value.items() if key != "pipelines"}
    for number, one in enumerate(listed, 1):
        where = f"{source}: pipelines, number {number}" if "pipelines" in value else source
        for key in _OF_ALL:
            if key in one:
                raise PipelineError(f"{where}: {key}: all share one Spark; set it at the top of the file")
        values = {**defaults, **one}
        if ("topic" in values) == ("topics" in values):
            raise PipelineError(f"{where}: expected topic (a name) or topics (a pattern)")
        if "topic" in values:
            if not isinstance(values["topic"], str):
                raise PipelineError(f"{where}: topic: expected text, not {shown(values['topic'])}")
            yield _Entry(values, None, where, folder, given)
        else:
            yield _Entry(values, _pattern(values, where), where, folder, given)


def _pattern(values: Mapping[str, Any], where: str) -> Pattern:
    regex = values["topics"]
    if not isinstance(regex, str) or not regex:
        raise PipelineError(f"{where}: topics: expected a regular expression, not {shown(regex)}")
    try:
        pattern = compile_pattern(regex)
    except PatternError as error:
        raise PipelineError(f"{where}: topics: {error}") from None
    for key in ("name", "table"):
        given = values.get(key)
        if given is not None and PLACE not in str(given):
            raise PipelineError(
                f"{where}: {key}: the topics of a pattern would share {given}; put {PLACE} into it"
            )
    return pattern


def _filled(values: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """The mapping of one topic."""
    filled = dict(values)
    for key, value in values.items():
        if key in _PLACES and isinstance(value, str):
            filled[key] = value.replace(PLACE, topic)
        elif key == "format" and isinstance(value, Mapping):
            filled[key] = _filled(value, topic)
    return filled


def _table_for(topic: str, text: str, source: str) -> str:
    """The table as the file names it, so that a topic with dots is no name in a catalog.

    Raises PipelineError if the table would be in a catalog, which has no such name.
    """
    kind, _, place = text.partition(":")
    in_catalog = PLACE in place and is_in_a_catalog(place.replace(PLACE, _SAMPLE))
    if in_catalog and not is_name_in_a_catalog(topic):
        raise PipelineError(
            f"{source}: table: {text}: a catalog has no table named {topic}; give this topic an entry of "
            "its own, with another table"
        )
    return f"{kind}:./{PLACE}" if place == PLACE else text


def _check_unique(definitions: Iterable[PipelineDefinition], source: str) -> None:
    """Raises PipelineError if two pipelines cannot be told apart, or would write the same."""
    seen: dict[tuple[str, ...], PipelineDefinition] = {}
    for one in definitions:
        marks = [("name", one.name), ("table", one.table.location), ("state", one.table.folder)]
        files = [] if one.table.files is None else [("files", one.table.files)]
        group = [] if one.group is None else [("group", one.group, one.topic, one.bootstrap)]
        for mark in (*marks, *files, *group):
            other = seen.setdefault(mark, one)
            if other is not one:
                raise PipelineError(
                    f"{source}: {mark[0]}: the pipelines of {other.topic} and {one.topic} have the same, "
                    f"{mark[1]}; give each its own"
                )
