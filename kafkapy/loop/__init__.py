"""The event loop: what runs on it in turns, what waits, and the threads that work for it."""
