"""The partitions of this broker: acknowledgements, flushes, moves, compaction and upkeep."""
