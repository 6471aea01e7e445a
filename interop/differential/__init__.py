"""Sends the same requests to Apache Kafka and to kafkapy, and compares every field."""
