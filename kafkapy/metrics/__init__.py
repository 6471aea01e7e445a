"""Prometheus metrics, health and readiness, at an HTTP port of their own.

The broker imports this package only if `metrics.port` is set; nothing below imports it, nor the client
library. A scrape takes a snapshot on the event loop, in turns with requests (snapshot.py), and is written by
a thread (page.py, families.py). names.py has the names; docs/metrics.md explains them to operators.
"""
