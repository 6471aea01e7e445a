"""Which segments a partition's directory has, when somebody may be renaming them.

Compaction writes `.cleaned` files, renames them to `.swap` from the highest offset down, renames what they
replace to `.deleted`, and takes the suffix `.swap` off. Retention renames to `.deleted`, and the files go
after file.delete.delay.ms. So at each moment the log is the files without a suffix and, where a swap is under
way or was interrupted, the `.swap` files in place of those that they replace (as storage/recovery.py
completes it). A directory is listed until two lists in a row agree, as a rename may hide a file from one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kafkapy.log_source.log_source_error import LogSourceError
from kafkapy.log_source.offline_segment import SWAP_SUFFIX, OfflineSegment
from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.storage.batches import BadBatchError
from kafkapy.storage.producer_snapshots import snapshot_offset
from kafkapy.storage.segment import DELETED_SUFFIX

_CLEANED_SUFFIX = ".cleaned"
_LOG_FILE = re.compile(r"([0-9]{20})\.log(|\.swap|\.deleted|\.cleaned)")
_ATTEMPTS = 100


@dataclass(slots=True)
class Listing:
    """The files of a partition."""

    segments: list[OfflineSegment]
    """Of the log, in offset order."""
    deleted: list[OfflineSegment]
    """Those below the log that are about to go, in offset order."""
    snapshots: list[int] = field(default_factory=list)
    """Offsets of the producer snapshots, in order."""

    @property
    def names(self) -> set[tuple[int, str]]:
        """Base offset and suffix of each segment of the log."""
        return {(segment.base_offset, segment.suffix) for segment in self.segments}

    def close(self) -> None:
        """Close the files that were opened."""
        for segment in (*self.segments, *self.deleted):
            segment.close_files()


def list_partition(files: ReadOnlyFiles, directory: str) -> Listing:
    """The segments of the partition in `directory`.

    Raises:
        LogSourceError: the directory is gone, cannot be read, or does not keep still.
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
    raise LogSourceError(f"The files in {directory} change all the time; try again.")


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
    """The offset behind the last batch of what compaction wrote."""
    end = segment.base_offset
    try:
        for place in segment.places():
            end = place.last_offset + 1
    except BadBatchError:
        pass  # whoever reads the segment says what is wrong with it
    finally:
        segment.close_files()
    return end
