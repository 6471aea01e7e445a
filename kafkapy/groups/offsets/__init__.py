"""Committed offsets: in memory, in records, pending in transactions, and their removal."""
