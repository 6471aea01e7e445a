"""Departures from New York in 2013: real data through a whole pipeline (see README.md)."""
