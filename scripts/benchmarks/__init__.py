"""What `scripts/bench` measures, and with what.

These are suites, the loads that they run, and what they measure with.
"""
