"""Apache Kafka's command line tools, and the Java clients in them, against the broker."""
