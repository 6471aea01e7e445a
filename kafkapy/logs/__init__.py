"""Log lines: how they are set up, shortened, and written in a thread."""
