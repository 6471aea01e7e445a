"""What `scripts/bench` runs: the suites, their loads, and the tools that measure them."""
