"""The segments in a partition's directory, while a broker may be renaming them.

Compaction writes `.cleaned` files, renames them to `.swap` from the highest offset down, renames what they
replace to `.deleted`, and removes the suffix `.swap`. Retention renames files to `.deleted`, and they are
removed after file.delete.delay.ms. So the log consists of the files without a suffix. If a swap is under way
or was interrupted, `.swap` files count instead of the files that they replace
(storage/recovery/leftovers.py completes the swap in the same way). A directory is listed until two lists in a
row agree, since a list may miss a file that is renamed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkapy.storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    parse_file_name,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_segment import OfflineSegment

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


def list_partition(files: FileSystem, directory: str) -> Listing:
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


def _list(files: FileSystem, directory: str) -> Listing:
    found: dict[str, dict[int, OfflineSegment]] = {"": {}, SWAP_SUFFIX: {}, DELETED_SUFFIX: {}}
    cleaned: list[int] = []
    snapshots: list[int] = []
    for entry in files.scan(directory):
        parsed = parse_file_name(entry.name)
        if parsed is None:
            continue
        offset, suffix, mark = parsed
        if suffix == SNAPSHOT_SUFFIX and not mark:
            snapshots.append(offset)
        if suffix != LOG_SUFFIX:
            continue
        if mark == CLEANED_SUFFIX:
            cleaned.append(offset)
        else:
            size = entry.stat().st_size
            found[mark][offset] = OfflineSegment(files, directory, offset, size=size, suffix=mark)
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
        pass  # reported when the segment is read
    finally:
        segment.close_files()
    return end
