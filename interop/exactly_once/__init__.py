"""Exactly once: transactions under kills, zombies and lost frames, Kafka Streams, Java's own copier."""
