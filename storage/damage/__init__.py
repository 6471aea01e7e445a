"""Damage: how bytes that are no valid batch any more are found, noted and handled."""
