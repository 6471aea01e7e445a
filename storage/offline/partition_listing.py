"""The segments in a partition's directory, while a broker may be renaming them.

Compaction writes `.cleaned` files, renames them to `.swap` from the highest offset down, renames what they
replace to `.deleted`, and removes the suffix `.swap`. Retention renames files to `.deleted`, and they are
removed after file.delete.delay.ms. So at each moment the log consists of the files without a suffix. If a
swap is under way or was interrupted, `.swap` files take the place of those that they replace
(storage/recovery/recovery.py completes the swap in the same way). A directory is listed until two lists in a
row agree, since a rename may hide a file from a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.producer_snapshots import snapshot_offset
from kafkapy.storage.log.segment import DELETED_SUFFIX
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_segment import SWAP_SUFFIX, OfflineSegment
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_CLEANED_SUFFIX = ".cleaned"
_LOG_FILE = re.compile(r"([0-9]{20})\.log(|\.swap|\.deleted|\.cleaned)")
_ATTEMPTS = 100


@dataclass(slots=True)
class Listing:
    """The files of a partition."""

    segments: list[OfflineSegment]
    """The segments of the log, in offset order."""
    deleted: list[OfflineSegment]
    """The segments below the log that are about to be removed, in offset order."""
    snapshots: list[int] = field(default_factory=list)
    """The offsets of the producer snapshots, in order."""

    @property
    def names(self) -> set[tuple[int, str]]:
        """Return base offset and suffix of each segment of the log."""
        return {(segment.base_offset, segment.suffix) for segment in self.segments}

    def close(self) -> None:
        """Close the files that were opened."""
        for segment in (*self.segments, *self.deleted):
            segment.close_files()


def list_partition(files: ReadOnlyFiles, directory: str) -> Listing:
    """Return the files of the partition in `directory`.

    Raises:
        LogSourceError: the directory is gone, cannot be read, or keeps changing.
    """
    before: Listing | None = None
    try:
        for _ in range(_ATTEMPTS):
            try:
                listing = _list(files, directory)
            except FileNotFoundError:
                files.size(directory)
                continue
            if before is not None and listing.names == before.names:
                return listing
            before = listing
    except OSError as error:
        raise LogSourceError(f"{directory} cannot be read: {error.strerror or error}.") from None
    raise LogSourceError(f"The files in {directory} keep changing; try again.")


def _list(files: ReadOnlyFiles, directory: str) -> Listing:
    found: dict[str, dict[int, OfflineSegment]] = {"": {}, SWAP_SUFFIX: {}, DELETED_SUFFIX: {}}
    cleaned: list[int] = []
    snapshots: list[int] = []
    for entry in files.scan(directory):
        offset = snapshot_offset(entry.name)
        if offset is not None:
            snapshots.append(offset)
        match = _LOG_FILE.fullmatch(entry.name)
        if match is None:
            continue
        base_offset, suffix = int(match[1]), match[2]
        if suffix == _CLEANED_SUFFIX:
            cleaned.append(base_offset)
        else:
            size = entry.stat().st_size
            found[suffix][base_offset] = OfflineSegment(
                files, directory, base_offset, size=size, suffix=suffix
            )
    segments = found[""]
    complete = {
        base: each for base, each in found[SWAP_SUFFIX].items() if base < min(cleaned, default=base + 1)
    }
    if complete:
        end = _end_of_swap(complete[max(complete)])
        segments = {base: each for base, each in segments.items() if not min(complete) <= base < end}
        segments |= complete
    first = min(segments, default=0)
    deleted = found[DELETED_SUFFIX]
    return Listing(
        [segments[base] for base in sorted(segments)],
        [deleted[base] for base in sorted(deleted) if base < first],
        snapshots,
    )


def _end_of_swap(segment: OfflineSegment) -> int:
    """Return the offset after the last batch of a segment that compaction wrote."""
    end = segment.base_offset
    try:
        for place in segment.places():
            end = place.last_offset + 1
    except BadBatchError:
        pass  # the reader of the segment reports what is wrong
    finally:
        segment.close_files()
    return end
