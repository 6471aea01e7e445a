"""Damage: how bytes that are not a valid batch any more are found, noted and handled."""
