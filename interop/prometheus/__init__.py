"""A real Prometheus scrapes the broker, and evaluates what is usually queried."""
