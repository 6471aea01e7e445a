"""Apache Kafka's own record classes against ours."""
