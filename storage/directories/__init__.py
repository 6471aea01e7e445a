"""Log directories: whose they are, which logs they hold, their checkpoints, moves between them."""
