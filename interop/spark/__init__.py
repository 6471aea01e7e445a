"""Spark's own Kafka source and sink against the broker."""
