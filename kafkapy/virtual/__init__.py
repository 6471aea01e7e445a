"""Brokers in virtual time: network, disks, threads and clocks are simulated."""
