from kafkapy.protocol.compression import Buffer
from kafkapy.storage.cleaning.offset_map import Slots

def index_batches(
    slots: Slots,
    size: int,
    limit: int,
    first_offset: int,
    last_offset: int,
    data: Buffer,
    at: int,
    end: int,
    low: int,
    high: int,
    /,
) -> tuple[int, int, int, int, int, int]:
    """The compiled twin of `key_index.index_batches_purely`."""

def index_records(
    slots: Slots,
    size: int,
    limit: int,
    first_offset: int,
    last_offset: int,
    records: Buffer,
    base_offset: int,
    count: int,
    /,
) -> tuple[int, int, int, int]:
    """The compiled twin of `key_index.index_records_purely`."""

class BatchFilter:
    """The compiled twin of `batch_filter.PureBatchFilter`."""

    def __new__(
        cls,
        slots: Slots,
        last_offset: int,
        now_ms: int,
        new_horizon: int,
        producers: bytes,
        base_offset: int,
        end_offset: int,
        round_end: int,
        interval: int,
        /,
    ) -> BatchFilter: ...
    def run(
        self, data: Buffer, at: int, end: int, final: bool, out: bytearray | memoryview, out_at: int, /
    ) -> tuple[int, int, int]: ...
    def filter_records(
        self, records: Buffer, base_offset: int, base_timestamp: int, count: int, has_horizon: bool, /
    ) -> tuple[int, int, bytes, int, int, bool] | None: ...
    def accept(self, base_offset: int, last_offset: int, /) -> bool: ...
    def note(self, size: int, last_offset: int, max_timestamp: int, /) -> None: ...
    def written(self) -> tuple[int, int, int, bytes, bytes]: ...
    def seen(self) -> tuple[int, int, int]: ...
