"""kcat, the command line tool on librdkafka, against the broker."""
