"""Java's verifiable producer and consumers, which Apache Kafka's own system tests use."""
