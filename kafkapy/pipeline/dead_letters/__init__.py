"""Records that could not become rows."""
