"""confluent-kafka (librdkafka) against the broker."""
