"""Departures from New York in 2013: real data through a complete pipeline (see README.md)."""
