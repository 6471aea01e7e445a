"""Apache Kafka's own command line tools, and with them its Java clients, against the broker."""
