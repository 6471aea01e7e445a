"""The same requests to Apache Kafka and to kafkapy, and their answers compared field by field."""
