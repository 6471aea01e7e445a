"""Commands on data directories, which need no broker."""
