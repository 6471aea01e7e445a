"""Data directories on their way from Apache Kafka to this broker, and back."""
