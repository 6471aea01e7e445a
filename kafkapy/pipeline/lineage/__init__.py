"""Where a row came from, or why a record is no row."""
