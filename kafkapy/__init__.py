"""A Kafka broker in Python that stock clients use unchanged."""
