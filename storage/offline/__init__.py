"""Reading logs from their files, the broker down or running."""
