"""Loading the producers' states of a log, as they are at an offset.

They come from the newest good snapshot and the batches after it.
"""

from __future__ import annotations

from kafkapy.protocol.records import read_header
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.segments import Segments


def load_producers(
    states: ProducerStates,
    snapshots: ProducerSnapshots,
    segments: Segments,
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Make `states` those after all batches below `end_offset`.

    Raises:
        BadBatchError, DecodeError: a batch cannot be read.
        OSError: the disk failed.
    """
    snapshots.load(states, log_start_offset=log_start_offset, log_end_offset=end_offset, now_ms=now_ms)
    start = states.end_offset
    if start < end_offset:
        for segment in segments.covering(start):
            place = segment.find(start) if segment.base_offset < end_offset else None
            if place is None:
                continue
            for _, batch in segment.batches(place.position):
                header = read_header(batch)
                if header.base_offset >= end_offset:
                    break
                states.replay(header, batch, now_ms)
            segment.close_files()
    states.end_offset = end_offset
