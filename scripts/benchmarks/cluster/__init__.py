"""Loads on three brokers: kafkapy's or Apache Kafka's."""
