"""Copies of data directories, which share the files of closed segments with them."""
