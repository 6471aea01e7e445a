"""The compiled parts and their pure twins, between which a test chooses."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import pytest

from kafkapy.protocol import plain_batch, record_times, record_walker
from kafkapy.storage.cleaning import batch_filter, cleaned_output, cleaner, key_index
from kafkapy.storage.log import validate

_PURE: Final[tuple[tuple[ModuleType, str, Any], ...]] = (
    (record_walker, "Walker", record_walker.PureWalker),
    (record_times, "find_time", record_times.find_time_purely),
    (validate, "read_plain_batch", plain_batch.read_plain_batch_purely),
    (cleaned_output, "BatchFilter", batch_filter.PureBatchFilter),
    (cleaner, "index_batches", key_index.index_batches_purely),
    (cleaner, "index_records", key_index.index_records_purely),
)


def without_compiled_parts(patch: pytest.MonkeyPatch) -> None:
    """Have the pure twins used, as KAFKAPY_PURE_PYTHON does for a process."""
    for module, name, pure in _PURE:
        patch.setattr(module, name, pure)
