"""Sockets, frames, connections, and the order of answers."""
