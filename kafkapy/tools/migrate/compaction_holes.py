"""Offsets that compaction left empty between two segments, and what they say.

After an unclean stop this broker ends a log where the next segment does not go on: a write was lost there,
and what lies after it must not be kept (recovery.py). Below the offset that the cleaner noted, it takes holes
for those of compaction. Apache Kafka notes that offset when it has finished a log, minutes after its first
segments, and its recovery point once a minute. A crash in between leaves holes that neither covers, and that
Kafka keeps.

A compacted segment is synced before it takes the place of another. So whatever lies before such a hole is on
disk, and the recovery point can be raised to its end.

Which topics are compacted may not be known. Then a hole that a lost write made is kept as well, as by Kafka.
Where they are known, a hole in a log that is not compacted is kept, and told as a missing segment when
somebody reads there (first_read.py).
"""

from __future__ import annotations

import re
from itertools import pairwise

from kafkapy.storage.log.batches import BadBatchError, iter_places
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_SEGMENT = re.compile(r"([0-9]{20})\.log")


def end_of_last_hole(files: ReadOnlyFiles, path: str, start: int) -> int:
    """The end of the last hole between segments of a partition; `start` if there is none.

    Nothing below `start` is looked at.

    Raises:
        OSError: the disk failed.
    """
    names = sorted(entry.name for entry in files.scan(path) if _SEGMENT.fullmatch(entry.name))
    found = start
    for name, following in pairwise(names):
        base_offset, next_base_offset = int(name[:20]), int(following[:20])
        if next_base_offset > start and _end_of(files, f"{path}/{name}", base_offset) < next_base_offset:
            found = next_base_offset
    return found


def _end_of(files: ReadOnlyFiles, path: str, base_offset: int) -> int:
    """The offset after the last batch of a segment."""
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
