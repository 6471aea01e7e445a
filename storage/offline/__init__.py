"""Reading logs from their files, whether a broker runs or not."""
