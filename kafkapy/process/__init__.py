"""What a process needs to be a broker: its clock, event loop, timers and log lines."""
