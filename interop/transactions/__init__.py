"""Transactions of stock clients against the broker."""
