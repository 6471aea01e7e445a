"""Compaction: of each key the log keeps the last record. One log at a time, one pass at a time."""
