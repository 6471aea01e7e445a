"""The options of the data source, with the names that Spark's Kafka source uses.

    path                  the data directory; several are separated by commas, as in log.dirs; or the URL of a
                          copy in an object store
    storageOptions        JSON with what fsspec's file system of the store takes: {"endpoint_url": "http://..."}
    subscribe             one or more topics, separated by commas; `topics` is the same
    subscribePattern      a regular expression for the names of topics, with RE2's syntax
    assign                partitions as JSON: {"topic": [0, 2]}
    startingOffsets       "earliest" (default), "latest", or JSON: {"topic": {"0": 17, "1": -2}} with -2 for
                          earliest and -1 for latest, every partition named
    endingOffsets         the same, "latest" by default, exclusive; only for batch queries
    startingTimestamp     milliseconds since 1970: from the first record that is at least as new, or from the
                          end of a partition that has none
    endingTimestamp       up to the first record that is at least as new, exclusive; only for batch queries
    key                   only the records with this key, as UTF-8 text
    isolation             read_committed (default) or read_uncommitted
    includeHeaders        true (default) or false
    failOnDataLoss        true (default): an error if records that had to be read are gone; false: read on
                          with the records that are left
    minPartitions         the least number of tasks, as far as there are 8 MB of the log for each
    maxOffsetsPerTrigger  only for streams: the most offsets that a micro-batch spans, over all partitions

Two defaults differ from Spark's Kafka source: isolation, since records of an aborted transaction must not be
read by mistake; and includeHeaders, since few records have headers and leaving them out saves nothing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from kafkapy.log.offsets_json import parse_offsets
from kafkapy.log.places import local_or_url
from kafkapy.log.read_options import Bound, ReadOptions
from kafkapy.log.record_filter import ALL_RECORDS
from kafkapy.patterns import PatternError, compile_pattern
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.offline_error import LogSourceError

_NAMES: Final = (
    "path",
    "storageOptions",
    "topics",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "key",
    "isolation",
    "includeHeaders",
    "failOnDataLoss",
    "minPartitions",
    "maxOffsetsPerTrigger",
)
_SPELLINGS = {name.lower(): name for name in _NAMES}
_TOPICS: Final = ("topics", "subscribe", "subscribePattern", "assign")
"""The options that choose topics; one of them is set."""
_FOR_BATCHES = ("endingOffsets", "endingTimestamp")


def parse_options(options: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Parse the options as Spark passes them: text, with names in any case.

    Raises:
        LogSourceError: an option is unknown, missing or wrong.
    """
    given = {_spelling(name): value for name, value in options.items()}
    for name in _FOR_BATCHES if stream else ("maxOffsetsPerTrigger",):
        if name in given:
            what = "a stream has no end" if stream else "only streams have triggers"
            raise LogSourceError(f"{name} cannot be set: {what}.")
    return ReadOptions(
        paths=tuple(map(local_or_url, _words(given, "path", "the data directory of a broker"))),
        storage_options=_storage_options(given.get("storageOptions", "{}")),
        **_choice_of_topics(given),
        starting=_bound(given, "starting", EARLIEST),
        ending=_bound(given, "ending", LATEST),
        only=ALL_RECORDS if "key" not in given else ALL_RECORDS.with_keys([given["key"].encode()]),
        read_committed=_choice(given, "isolation", ("read_committed", "read_uncommitted")),
        include_headers=_choice(given, "includeHeaders", ("true", "false")),
        fail_on_data_loss=_choice(given, "failOnDataLoss", ("true", "false")),
        min_splits=_number(given, "minPartitions", 1) or 1,
        max_offsets_per_trigger=_number(given, "maxOffsetsPerTrigger", 1),
    )


def _spelling(name: str) -> str:
    known = _SPELLINGS.get(name.lower())
    if known is None:
        near = difflib.get_close_matches(name.lower(), _SPELLINGS, n=1)
        hint = f"did you mean {_SPELLINGS[near[0]]}?" if near else f"there are {', '.join(_NAMES)}."
        raise LogSourceError(f"There is no option {name}; {hint}")
    return known


def _choice_of_topics(given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ReadOptions that choose topics."""
    chosen = [name for name in _TOPICS if given.get(name, "").strip()]
    if len(chosen) > 1:
        raise LogSourceError(f"{chosen[0]} and {chosen[1]} are both set: leave one out.")
    (name,) = chosen or ["topics"]
    if name == "subscribePattern":
        try:
            compile_pattern(given[name].strip())
            return {"pattern": given[name].strip()}
        except PatternError as error:
            raise LogSourceError(f"subscribePattern is {given[name]!r}: {error}.") from None
    if name == "assign":
        partitions = _assigned(given[name])
        return {"topics": tuple(sorted({each.topic for each in partitions})), "partitions": partitions}
    return {"topics": _words(given, name, "one or more topics, separated by commas")}


def _assigned(text: str) -> frozenset[TopicPartition]:
    try:
        assigned = {
            TopicPartition(topic, number) for topic, numbers in json.loads(text).items() for number in numbers
        }
        if assigned and all(type(number) is int and number >= 0 for _, number in assigned):
            return frozenset(assigned)
    except (ValueError, TypeError, AttributeError):
        pass
    raise LogSourceError(f'assign is {text!r}: it must be JSON such as {{"topic": [0, 2]}}.')


def _storage_options(text: str) -> dict[str, Any]:
    """The message does not show the text, as it may have secrets."""
    try:
        options = json.loads(text)
        if isinstance(options, dict):
            return options
    except ValueError:
        pass
    raise LogSourceError('storageOptions must be JSON such as {"key": "...", "secret": "..."}.')


def _words(given: Mapping[str, str], name: str, meaning: str) -> tuple[str, ...]:
    words = tuple(word for part in given.get(name, "").split(",") if (word := part.strip()))
    if not words:
        raise LogSourceError(f"The option {name} is missing: {meaning}.")
    return words


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, str]) -> bool:
    """Return whether the value is the first of the two, which is the default."""
    value = given.get(name, choices[0]).strip().lower()
    if value not in choices:
        raise LogSourceError(f"{name} is {given[name]!r}: it must be {choices[0]} or {choices[1]}.")
    return value == choices[0]


def _number(given: Mapping[str, str], name: str, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < least:
        raise LogSourceError(f"{name} is {text!r}: it must be a number of at least {least}.")
    return int(text)


def _bound(given: Mapping[str, str], which: str, default: int) -> Bound:
    by_offset, by_time = f"{which}Offsets", f"{which}Timestamp"
    timestamp = _number(given, by_time, 0)
    text = given.get(by_offset)
    if timestamp is not None:
        if text is not None:
            raise LogSourceError(f"{by_offset} and {by_time} are both set: leave one out.")
        return Bound(by_time, default, timestamp=timestamp)
    if text is None:
        return Bound(by_offset, default)
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return Bound(by_offset, words[text.strip().lower()])
    return Bound(by_offset, default, offsets=parse_offsets(by_offset, text))
