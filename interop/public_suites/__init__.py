"""Suites of public projects that start Kafka, unedited, with brokers of kafkapy."""
