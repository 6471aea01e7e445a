"""Transforms of rows before the table, as SQL expressions of a definition."""
