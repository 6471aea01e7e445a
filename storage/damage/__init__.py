"""Bytes that are no batch any more: found, remembered and served around."""
