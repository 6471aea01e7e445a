"""TLS: certificates and keys from Kafka's settings, and the names of clients by their certificates."""
