"""The state that the steps of a pass share, and the reading of segments in chunks."""

from __future__ import annotations

import struct

from kafkapy.protocol.compression import Buffer, decompress
from kafkapy.protocol.records import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from kafkapy.storage.cleaning.key_index import SPECIAL, look
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.plan import CleaningLimits, CleaningPlan, CleaningStats, SourceSegment
from kafkapy.storage.cleaning.task import CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.disk.file_names import LOG_SUFFIX, file_name, path_stem
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.batches import BadBatchError

CHUNK = 1 << 20
"""The bytes that are read at once."""


class Workspace:
    """The shared state of one pass.

    Only one thread at a time may use it.
    """

    __slots__ = (
        "_throttle",
        "buffer",
        "files",
        "last_offsets",
        "limits",
        "marker_epochs",
        "pace",
        "packed_last_offsets",
        "plan",
        "stats",
        "task",
    )

    def __init__(
        self,
        files: FileSystem,
        plan: CleaningPlan,
        task: CleaningTask,
        limits: CleaningLimits,
        throttle: Throttle,
        pace: Pace,
    ) -> None:
        self.files = files
        self.plan = plan
        self.task = task
        self.limits = limits
        self._throttle = throttle
        self.pace = pace
        self.stats = CleaningStats()
        self.buffer = memoryview(bytearray(CHUNK))
        self.last_offsets: dict[int, int] = {}
        """The last offset of each known producer. The batch there has its last sequence number."""
        self.marker_epochs: dict[int, int] = {}
        """The epoch of each producer without such a batch, known by a marker alone."""
        for producer_id, entry in plan.producers.items():
            last_offset = entry.last_offset
            if last_offset < 0:
                self.marker_epochs[producer_id] = entry.epoch
            else:
                self.last_offsets[producer_id] = last_offset
        self.packed_last_offsets = b"".join(
            struct.pack("=qq", *pair) for pair in sorted(self.last_offsets.items())
        )

    def begin(self) -> None:
        """Begin a step of the pass."""
        self.pace.begin()

    def moved(self, nbytes: int) -> None:
        """Count bytes read or written, and wait for the throttle and the pace.

        Raises CleaningAbortedError.
        """
        self._throttle.pass_through(nbytes, self.task)
        self.pace.rest(self.task)

    def stem(self, base_offset: int) -> str:
        """The path of a segment's files without the suffix."""
        return path_stem(self.plan.directory, base_offset)

    def open(self, segment: SourceSegment) -> File:
        """The `.log` file of a segment; the caller releases it.

        Raises CleaningAbortedError.
        """
        with self.task.paths():
            return self.files.open(self.stem(segment.base_offset) + LOG_SUFFIX)

    def records(self, batch: memoryview, header: BatchHeader) -> Buffer:
        """The records of a batch, decompressed.

        Raises DecodeError.
        """
        payload = batch[HEADER_SIZE:]
        codec = header.compression
        return decompress(codec, payload, limit=self.limits.max_decompressed) if codec else payload


class SegmentChunks:
    """Reads a segment in chunks that begin with a batch."""

    __slots__ = ("_file", "_position", "_segment", "_workspace", "at", "buffer", "filled")

    def __init__(self, workspace: Workspace, file: File, segment: SourceSegment, start: int) -> None:
        self._workspace = workspace
        self._file = file
        self._segment = segment
        self._position = start
        """The position in the file of the buffer's first byte."""
        self.buffer = workspace.buffer
        self.at = self.filled = 0
        """The position in the buffer, between two batches; and the end of the bytes in it."""

    @property
    def ends_segment(self) -> bool:
        """Whether the buffer holds the end of the segment."""
        return self._position + self.filled == self._segment.size

    def more(self) -> bool:
        """Read on from the last incomplete batch; return False at the end of the segment."""
        workspace, size = self._workspace, self._segment.size
        self._position += self.at
        left = size - self._position
        if left == 0:
            return False
        if self.at == 0 and self.filled:
            self._grow()
        wanted = min(len(self.buffer), left)
        self.filled = workspace.files.read_into(self._file, self.buffer[:wanted], self._position)
        self.at = 0
        if self.filled < wanted:
            raise self.bad("the file ends")
        if self.filled < HEADER_SIZE:
            raise self.bad("the file ends inside a batch header")
        workspace.moved(self.filled)
        return True

    def _grow(self) -> None:
        """Enlarge the buffer, since the batch at its start does not fit."""
        length = int.from_bytes(self.buffer[8:12], "big", signed=True)
        size = length + LOG_OVERHEAD
        if length < HEADER_SIZE - LOG_OVERHEAD or size > self._segment.size - self._position:
            raise self.bad(f"a batch of {size} bytes passes the end of the file")
        if size <= len(self.buffer):
            raise self.bad("an incomplete batch")
        self.buffer = self._workspace.buffer = memoryview(bytearray(size))

    def special(self, stop: int) -> tuple[memoryview, BatchHeader]:
        """The batch at which a walk stopped.

        Raises BadBatchError if it is not a special one.
        """
        found, header = look(self.buffer, self.at, self.filled)
        if stop != SPECIAL or header is None or found != SPECIAL:
            magic = self.buffer[self.at + 16]
            raise self.bad("damaged" if magic == 2 else f"message format {magic}")
        return self.buffer[self.at : self.at + header.size], header

    def bad(self, what: str) -> BadBatchError:
        return BadBatchError(
            self._position + self.at, f"segment {file_name(self._segment.base_offset, LOG_SUFFIX)}: {what}"
        )
