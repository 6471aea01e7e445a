"""`kafkapy snapshot`: a data directory as a second one, or as an archive."""
