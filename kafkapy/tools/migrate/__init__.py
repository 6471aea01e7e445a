"""`kafkapy export` and `kafkapy import`: data directories to Apache Kafka, and from it."""
