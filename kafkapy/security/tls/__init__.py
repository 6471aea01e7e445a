"""TLS: keys and certificates, and the names of clients by their certificates."""
