"""Apache Spark's Kafka source and sink against the broker."""
