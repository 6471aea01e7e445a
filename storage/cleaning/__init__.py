"""Compaction: a log keeps the last record of each key.

One log is compacted at a time, by one pass at a time.
"""
