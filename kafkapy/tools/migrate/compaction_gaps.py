"""Gaps in the offsets between two segments, which compaction left in a log of Apache Kafka.

After an unclean stop, this broker truncates a log at a gap between segments: a write was lost there
(recovery.py). A gap below the recovery point or below the offset in the cleaner's checkpoint is kept:
compaction left it. Apache Kafka writes the cleaner's checkpoint when it has compacted all of a log, minutes
after the first segments, and the recovery points once a minute. So a crash may leave gaps above both. Kafka
keeps the records after such a gap, and so must an import.

Kafka syncs a compacted segment before it replaces the old ones. So everything before the gap is on disk, and
the recovery point can be raised to the end of the gap.

If nobody knows which topics are compacted, a gap that a lost write made is kept too, as Kafka does. If it is
known, a gap in a log that is not compacted is kept, and reported as a missing segment when it is read
(first_read.py).
"""

from __future__ import annotations

from itertools import pairwise

from kafkapy.storage.disk.file_names import find_logs
from kafkapy.storage.log.batches import BadBatchError, iter_places
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles


def end_of_last_gap(files: ReadOnlyFiles, path: str, start: int) -> int:
    """Return the end of the last gap between a partition's segments; `start` if there is none.

    Gaps below `start` do not count.

    Raises:
        OSError: the disk failed.
    """
    logs = find_logs(entry.name for entry in files.scan(path))
    found = start
    for (base_offset, name), (next_base_offset, _) in pairwise(logs):
        if next_base_offset > start and _end_of(files, f"{path}/{name}", base_offset) < next_base_offset:
            found = next_base_offset
    return found


def _end_of(files: ReadOnlyFiles, path: str, base_offset: int) -> int:
    """Return the offset after the last batch of a segment."""
    end = base_offset
    file = files.open(path)
    try:
        for place in iter_places(files, file, 0, files.size_of(file)):
            end = place.last_offset + 1
    except BadBatchError:
        pass
    finally:
        file.release()
    return end
