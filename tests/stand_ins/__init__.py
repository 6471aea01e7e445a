"""Suites that are written for containers run with brokers of kafkapy."""
