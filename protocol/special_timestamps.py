"""The timestamps of ListOffsets that stand for an offset (Kafka's ListOffsetsRequest)."""

LATEST = -1
"""The end of what the reader may see: the high watermark, or the last stable offset."""
EARLIEST = -2
"""The log start offset."""
MAX_TIMESTAMP = -3
"""The record with the largest timestamp (KIP-734)."""
EARLIEST_LOCAL = -4
"""The first offset on the broker's own disks (KIP-405)."""
LATEST_TIERED = -5
"""The last offset in remote storage (KIP-1005)."""
EARLIEST_PENDING_UPLOAD = -6
"""The first offset that is not in remote storage yet (KIP-1023)."""
