"""Kafka Connect, distributed, with file source and sink, exactly once."""
