"""Requests of this broker to the brokers of its cluster, itself included."""
