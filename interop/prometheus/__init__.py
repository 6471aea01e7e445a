"""A real Prometheus scrapes the broker, and evaluates what dashboards and alert rules query."""
