"""Damage: bytes that are no batch any more, found, noted and served around."""
