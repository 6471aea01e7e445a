"""The tools of a process: its clock, event loop, timers, log lines and progress bar."""
