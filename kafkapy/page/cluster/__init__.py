"""What the page asks of a cluster."""
