"""What the interop suites and the benchmark share: jars, server processes, a probe."""
