"""The facts of one file of a data directory; the file may be of any kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.storage.disk.file_names import parse_kraft_snapshot_name
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.dump_log.batches import ALL, Offsets, What, dump_log
from kafkapy.tools.dump_log.decoders import Decoder, decoder_for_topic
from kafkapy.tools.dump_log.fact import Fact, error
from kafkapy.tools.dump_log.file_kinds import FileKind, base_offset, file_kind, topic_of
from kafkapy.tools.dump_log.indexes import dump_offset_index, dump_time_index, dump_txn_index, log_is_missing
from kafkapy.tools.dump_log.small_files import dump_small_file

_INDEXES = {
    FileKind.OFFSET_INDEX: dump_offset_index,
    FileKind.TIME_INDEX: dump_time_index,
    FileKind.TXN_INDEX: dump_txn_index,
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a dump."""

    deep: bool = False
    data: bool = False
    verify: bool = False
    decode: bool = True
    """Whether the topic in the name of a file's directory decides on the decoder."""
    decoder: Decoder | None = None
    """The decoder for every topic."""
    offsets: Offsets = ALL


def dump_file(files: ReadOnlyFiles, path: str, options: Options) -> Iterator[Fact]:
    """Yield the facts of one file; the first is about the file itself.

    With `verify`, the others say what is wrong; if nothing is, there is one fact `sane`.
    """
    kind = file_kind(path)
    assert kind is not None, path
    yield Fact("file", {"file": path, "type": kind.value})
    if not options.verify:
        yield from _dump(files, path, kind, options)
        return
    sane = True
    for fact in _dump(files, path, kind, options):
        if fact.is_problem or fact.values.get("isvalid") is False:
            sane = False
            yield fact
    if sane:
        yield Fact("sane")


def _dump(files: ReadOnlyFiles, path: str, kind: FileKind, options: Options) -> Iterator[Fact]:
    try:
        if kind in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT):
            yield from _dump_batches(files, path, kind, options)
        elif kind in _INDEXES:
            if options.verify and log_is_missing(path):
                yield error("there is no segment to compare it with")
            else:
                yield from _INDEXES[kind](files, path, verify=options.verify, offsets=options.offsets)
        else:
            yield from dump_small_file(files, path, kind, offsets=options.offsets)
    except OSError as problem:
        yield error(f"cannot be read: {problem.strerror or problem}")


def _dump_batches(files: ReadOnlyFiles, path: str, kind: FileKind, options: Options) -> Iterator[Fact]:
    topic = topic_of(path)
    if kind is FileKind.LOG:
        yield Fact("segment", {"startOffset": base_offset(path)})
    else:
        topic = CLUSTER_METADATA_TOPIC
        snapshot = parse_kraft_snapshot_name(os.path.basename(path))
        if snapshot is None:
            yield Fact("bootstrap")
        else:
            yield Fact("kraftSnapshot", {"endOffset": snapshot.end_offset, "epoch": snapshot.epoch})
    decoder = options.decoder
    if decoder is None and options.decode:
        decoder = decoder_for_topic(topic)
    what = What(options.deep or options.data, options.data, decoder, options.offsets)
    yield from dump_log(files, path, what)
