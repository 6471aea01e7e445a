"""Tests of the broker with stock clients and tools, one folder each; not installed."""
