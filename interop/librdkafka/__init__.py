"""librdkafka's own tests: transactions, and groups of three types."""
