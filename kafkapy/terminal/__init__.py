"""What commands show on a terminal: a progress bar, and one line for a failure."""
