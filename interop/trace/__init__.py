"""`kafkapy trace` between clients of Java and librdkafka and an Apache Kafka."""
