"""SASL: how clients log in."""
