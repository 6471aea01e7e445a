"""Log directories: whose they are, their logs, their checkpoints, and moves between them."""
