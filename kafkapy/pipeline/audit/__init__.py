"""Comparing a table with its topic."""
