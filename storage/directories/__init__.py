"""Log directories: whose they are, and which logs they hold, save and move."""
