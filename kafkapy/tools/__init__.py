"""Commands on data directories. They need no broker."""
