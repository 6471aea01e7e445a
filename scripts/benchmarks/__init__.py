"""The same loads against kafkapy and Apache Kafka; `scripts/bench` runs them."""
