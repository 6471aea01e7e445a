"""Random walks of group requests, on kafkapy and on Apache Kafka."""
