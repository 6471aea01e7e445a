from typing import TypeVar

T = TypeVar("T")

class Walker:
    """The compiled twin of `record_walker.PureWalker`."""

    def __new__(cls, base_timestamp: int, record_count: int, /) -> Walker: ...
    def feed(self, piece: bytes | bytearray | memoryview, /) -> str | None: ...
    def finish(self, /) -> str | None: ...
    def summary(self, /) -> tuple[int, int, int, int, int]: ...

def follow_lengths(
    data: bytes | bytearray | memoryview, start: int, end: int, count: int, out: object, /
) -> bool:
    """The compiled twin of `log_source.record_starts.follow_lengths_purely`."""

def find_time(
    data: bytes | bytearray | memoryview, timestamp: int, offset: int, newest: bool, /
) -> tuple[int, int, int | None, int | None]:
    """The compiled twin of `record_times.find_time_purely`."""

def read_plain_batch(data: bytes | bytearray | memoryview, /) -> tuple[tuple[int, ...], int, int] | None:
    """The compiled twin of `plain_batch.read_plain_batch_purely`."""

def lay_out_plain_batch(
    pairs: list[tuple[bytes, bytes | None]],
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    attributes: int,
    /,
) -> bytearray:
    """The compiled twin of `plain_batch.lay_out_plain_batch_purely`."""

def blank(class_: type[T], /) -> T:
    """The compiled twin of `object.__new__` for classes without a constructor in C."""
