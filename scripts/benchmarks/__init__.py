"""What `scripts/bench` measures: suites, the loads that they run, and what they measure with."""
