"""Exactly once: transactions under kills, zombies and lost frames.

Kafka Streams and Java's own copier run too.
"""
