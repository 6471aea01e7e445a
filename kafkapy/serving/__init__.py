"""What the page and the schema registry have in common: they serve HTTP in threads."""
