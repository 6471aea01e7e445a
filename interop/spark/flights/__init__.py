"""Departures from New York in 2013 as events: real data through a whole pipeline. See README.md."""
