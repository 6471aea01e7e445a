"""Brokers in virtual time: their network, disks, threads and clocks are simulated, in one thread."""
