"""kafka-python against the broker."""
