"""MirrorMaker 2 between the broker and Apache Kafka, both ways."""
