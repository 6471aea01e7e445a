"""Quotas, judged by Apache Kafka's own classes."""
