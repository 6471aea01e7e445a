"""The log of one partition: segments, indexes, producers, reading and writing."""
