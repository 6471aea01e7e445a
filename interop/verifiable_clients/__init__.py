"""Java's VerifiableProducer and VerifiableConsumer, which Apache Kafka's own system tests use."""
