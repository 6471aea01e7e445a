"""What a process needs: its clock, event loop, timers, log lines and progress bar."""
