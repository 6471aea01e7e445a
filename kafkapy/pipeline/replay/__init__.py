"""A table's rows back into a topic."""
