"""Replicas of partitions: replication, acknowledgements, flushes, moves and upkeep."""
