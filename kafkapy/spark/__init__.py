"""Spark for kafkapy: a session with the right jars, topics as data frames, and a look at what is missing."""
